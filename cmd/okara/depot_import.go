// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/importer"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/modulelock"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
)

func newDepotImport(up *upstreams) *cobra.Command {
	var registry, namespace, as string
	cmd := &cobra.Command{
		Use:   "import [FILE|DIR]...",
		Short: "Generate a depot file from lock files, OpenDepot resources or another registry",
		Long: `Print a depot file generated from what a team already uses:
  lock files        .terraform.lock.hcl, or folders with lock files: the providers
                    and versions in use
  YAML files        OpenDepot's Depot, Module and Provider resources
  --from-registry   the modules that another registry lists

With --as kubernetes YAML files become resources of okara's operator instead: Depot,
Module, Provider and AccessRule. What they cannot express becomes a comment with the
reason. In a cluster with both groups, a name without its group means okara's.`,
		Example: `  okara depot import live/ > depot.hcl
  kubectl get depots.opendepot.defdev.io,modules.opendepot.defdev.io,providers.opendepot.defdev.io -o yaml | okara depot import - > depot.hcl
  kubectl get depots.opendepot.defdev.io,modules.opendepot.defdev.io,providers.opendepot.defdev.io,versions.opendepot.defdev.io,groupbindings.opendepot.defdev.io -A -o yaml | okara depot import --as kubernetes -
  okara depot import --from-registry registry.example.com --namespace net > depot.hcl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && registry == "" {
				return cli.UsageError("specify lock files, folders or YAML files, or --from-registry HOST")
			}
			switch as {
			case "depot":
				return depotImport(cmd.Context(), up, args, registry, namespace)
			case "kubernetes":
				return importKubernetes(up.reg.App, args, registry)
			}
			return cli.UsageError("--as %s: must be depot or kubernetes", as)
		},
	}
	addAllowInternal(cmd.Flags(), &up.allowed)
	cmd.Flags().StringVar(&registry, "from-registry", "", "`HOST` of a module registry to list")
	cmd.Flags().StringVar(&namespace, "namespace", "", "import only this `NAMESPACE` of the registry")
	cmd.Flags().StringVar(&as, "as", "depot", "output form: `depot|kubernetes`")
	return cmd
}

func importKubernetes(a *cli.App, args []string, registry string) error {
	if registry != "" {
		return cli.UsageError("--as kubernetes cannot be used with --from-registry")
	}
	var manifests [][]byte
	for _, arg := range args {
		if !isManifest(arg) {
			return cli.UsageError("%s: --as kubernetes reads OpenDepot's resources from YAML files, or - for standard input", arg)
		}
		src, err := readInput(a, arg)
		if err != nil {
			return err
		}
		manifests = append(manifests, src)
	}
	text, err := importer.Kubernetes(manifests...)
	if err != nil {
		return err
	}
	return a.PrintResult(map[string]string{"manifests": text}, strings.TrimSuffix(text, "\n"))
}

func isManifest(arg string) bool {
	return arg == "-" || strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml")
}

func depotImport(ctx context.Context, up *upstreams, args []string, registry, namespace string) error {
	entries, interval, err := importFiles(up.reg.App, args)
	if err != nil {
		return err
	}
	if registry != "" {
		client, err := up.upstreamClient(registry)
		if err != nil {
			return err
		}
		found, err := importer.Registry(ctx, &upstream.ModuleRegistry{Client: client, Host: registry}, namespace)
		if err != nil {
			return err
		}
		entries = append(entries, found...)
	}
	text := importer.Render(entries, interval)
	if _, err := supply.ParseSet("the imported depot file", []byte(text)); err != nil {
		up.reg.Note("%s", text)
		return cli.WithHint(fmt.Errorf("the generated file is invalid: %w", err), "save the file printed above, correct it and run `okara depot validate`")
	}
	return up.reg.PrintResult(entries, strings.TrimSuffix(text, "\n"))
}

func importFiles(a *cli.App, args []string) (entries []importer.Entry, interval int, err error) {
	var locks []*lockfile.File
	for _, arg := range args {
		if isManifest(arg) {
			src, err := readInput(a, arg)
			if err != nil {
				return nil, 0, err
			}
			found, minutes, err := importer.OpenDepot(src)
			if err != nil {
				return nil, 0, fmt.Errorf("%s: %w", arg, err)
			}
			entries = append(entries, found...)
			interval = max(interval, minutes)
			continue
		}
		names, _, err := projectFiles([]string{arg})
		if err != nil {
			return nil, 0, err
		}
		if len(names) == 0 {
			return nil, 0, cli.UsageError("no lock files in %s", arg)
		}
		for _, name := range names {
			l, err := readLockFile(name)
			if err != nil {
				return nil, 0, err
			}
			locks = append(locks, l)
		}
	}
	return append(entries, lockfile.DepotEntries(locks)...), interval, nil
}

func readLockFile(name string) (*lockfile.File, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return lockfile.Parse(name, src)
}

// projectFiles returns lock files, either named directly or below named folders, and the
// files in which "init" lists the installed modules of each root module there. A root module
// without providers has no lock file.
func projectFiles(names []string) (locks, installed []string, err error) {
	for _, name := range names {
		err := filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && e.Name() == dataFolder:
				installed = append(installed, filepath.Join(path, "modules", "modules.json"))
				return fs.SkipDir
			case !e.IsDir() && e.Name() == modulelock.Name:
				installed = append(installed, path)
			case path == name && !e.IsDir():
				locks = append(locks, path)
				installed = append(installed, filepath.Join(filepath.Dir(path), dataFolder, "modules", "modules.json"))
			case !e.IsDir() && e.Name() == lockfile.Name:
				locks = append(locks, path)
			}
			return nil
		})
		if err != nil {
			return nil, nil, &cli.ExitError{Code: cli.ExitUsage, Err: err}
		}
	}
	return locks, installed, nil
}

// dataFolder is the folder of what init downloaded for tofu and terraform.
const dataFolder = ".terraform"

// maxInput bounds what is read from standard input, in bytes.
const maxInput = 64 << 20

func readInput(a *cli.App, name string) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	b, err := io.ReadAll(io.LimitReader(a.In, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("standard input exceeds %d bytes", maxInput)
	}
	return b, err
}
