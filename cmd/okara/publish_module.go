// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

func newPublishModule(a *app) *cobra.Command {
	var o depot.ModuleOptions
	cmd := &cobra.Command{
		Use:   "module DIR NAMESPACE/NAME/SYSTEM VERSION",
		Short: "Publish a folder as a version of a module",
		Long: `Publish a folder as a version of a module.

The folder is packed the same way on every machine, so that the same files give
the same digest. Files named in .terraformignore and .tfignore stay behind, like
.git, .terraform and state files. A version is written once: publishing the same
content again succeeds without a push, other content is refused.

Prints repository:tag@digest.

Exit codes: 0 published or already there, 2 usage, 4 the version exists with
other content, 5 denied.`,
		Example: `  okara publish module ./vpc net/vpc/aws 1.4.0 --registry registry.example.com/platform
  okara publish module . net/vpc/aws v1.4.0`,
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := parseModuleVersion(args[1], args[2])
			if err != nil {
				return err
			}
			tree, err := openTree(args[0])
			if err != nil {
				return err
			}
			defer tree.Close()
			o.Annotations, err = a.publishAnnotations()
			if err != nil {
				return err
			}
			d, done, err := a.depot()
			if err != nil {
				return err
			}
			out, err := d.PublishModule(cmd.Context(), tree.FS(), m, o)
			done()
			if err != nil {
				return publishHint(err)
			}
			return a.printPublished(out)
		},
	}
	cmd.Flags().BoolVar(&o.Dereference, "dereference", false, "replace symbolic links inside the folder by what they point to")
	cmd.Flags().BoolVar(&o.NoLatest, "no-latest", false, "leave the tag latest where it is")
	return cmd
}

func parseModuleVersion(module, version string) (addr.ModuleVersion, error) {
	m, err := addr.ParseModule(module)
	if err != nil {
		return addr.ModuleVersion{}, usageError("%w", err)
	}
	v, err := addr.ParseVersion(version)
	if err != nil {
		return addr.ModuleVersion{}, usageError("%w", err)
	}
	return addr.ModuleVersion{Module: m, Version: v}, nil
}

// openTree opens a folder such that no link in it reaches outside.
func openTree(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usageError("%s does not exist", dir)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, usageError("%s is not a folder", dir)
	}
	return os.OpenRoot(dir)
}

// depot returns the depot of --registry. done ends the progress bars, if there
// are any, and must be called before anything is printed.
func (a *app) depot() (d *depot.Depot, done func(), err error) {
	client, layout, err := a.registryClient()
	if err != nil {
		return nil, nil, err
	}
	progress, done := a.progress()
	return depot.New(depot.Options{Client: client, Layout: layout, Progress: progress}), done, nil
}

// publishAnnotations returns what the environment says about the source.
func (a *app) publishAnnotations() (map[string]string, error) {
	annotations := map[string]string{}
	if s := a.getenv("SOURCE_DATE_EPOCH"); s != "" {
		seconds, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, usageError("SOURCE_DATE_EPOCH %q is not a number of seconds", s)
		}
		annotations[oci.AnnCreated] = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	return annotations, nil
}

func (a *app) printPublished(p depot.Published) error {
	for _, w := range p.Warnings {
		a.note("warning: %s", w)
	}
	if p.Existing {
		a.note("already published, nothing was pushed")
	}
	return a.printResult(p, p.String())
}

// publishHint says what to do about the refusals of publishing.
func publishHint(err error) error {
	if conflict, ok := errors.AsType[*depot.ConflictError](err); ok {
		hint := "a published version never changes; publish under a new version"
		if conflict.Next != (addr.Version{}) {
			hint += fmt.Sprintf(", such as %s", conflict.Next)
		}
		return withHint(err, "%s", hint)
	}
	if _, ok := errors.AsType[*addr.SyntaxError](err); ok {
		return usageError("%w", err)
	}
	switch {
	case errors.Is(err, depot.ErrNoModule):
		return withHint(err, "name the folder that holds the module's files")
	case errors.Is(err, depot.ErrUnsigned):
		return withHint(err, "sign it with --sign-key FILE; `okara keys new` makes a key")
	case errors.Is(err, depot.ErrNoProvider):
		return withHint(err, "publish the folder that GoReleaser writes: zips named terraform-provider-TYPE_VERSION_OS_ARCH.zip with the plugin in their root")
	case errors.Is(err, archive.ErrUnsafe), errors.Is(err, archive.ErrTooLarge):
		return withHint(err, "leave the file out with a line in .terraformignore; a link inside the folder ships with --dereference")
	}
	return err
}
