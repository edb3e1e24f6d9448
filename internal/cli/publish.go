// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/checkout"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/trust"
)

// PrintFindings prints the findings in n repositories; it returns an error if there are any.
func PrintFindings(a *App, findings []depot.Finding, n int) error {
	a.Note("%s examined", text.Plural(n, "repository"))
	if len(findings) == 0 {
		a.Note("nothing found")
		return a.PrintResult([]depot.Finding{}, "")
	}
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, []string{f.Repository + ":" + f.Tag, f.Problem + "; " + f.Remedy})
	}
	if err := a.PrintResult(findings, Table(rows)); err != nil {
		return err
	}
	return errors.New(text.Plural(len(findings), "finding"))
}

// CheckFolder refuses a folder of the command line that is missing or a file.
func CheckFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return UsageError("%s does not exist", cmp.Or(dir, `""`))
	case err == nil && !info.IsDir():
		return UsageError("%s is not a folder", dir)
	}
	return err
}

// OpenTree opens a folder such that no link in it reaches outside.
func OpenTree(dir string) (*os.Root, error) {
	if err := CheckFolder(dir); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// OpenOwn opens a folder of the publisher, and sets up the report of held back files
// relative to the git checkout that contains the folder.
func OpenOwn(ctx context.Context, dir string, o *depot.ModuleOptions) (*os.Root, error) {
	tree, err := OpenTree(dir)
	if err != nil {
		return nil, err
	}
	hold := archive.HoldBack{Include: o.Hold.Include, Named: o.Hold.Named}
	o.Hold = &hold
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		if hold.Checkout, hold.At = checkoutOf(real); hold.Checkout != nil {
			hold.Tracked, _ = checkout.Tracked(ctx, real) // without git everything that .gitignore names is held back
		}
	}
	return tree, nil
}

// KeepRules makes o pack as okara did before it shipped what git tracks although .gitignore
// names it, if the version exists with that content: the folder has not changed.
func KeepRules(ctx context.Context, to interface {
	ModuleThere(ctx context.Context, m addr.ModuleVersion, plan *depot.ModulePlan, o depot.ModuleOptions) (existing bool, err error)
}, tree fs.FS, m addr.ModuleVersion, o *depot.ModuleOptions) {
	var err error
	if o.Tree, err = archive.List(ctx, tree, o.Listing()); err != nil || !o.Hold.ByTracked {
		return // an error is reported when the folder is published
	}
	former := *o
	former.Tree = nil
	former.Hold = &archive.HoldBack{Include: o.Hold.Include, Named: o.Hold.Named, Checkout: o.Hold.Checkout, At: o.Hold.At}
	plan, err := depot.PlanModule(ctx, tree, m, former)
	if err != nil {
		return
	}
	if there, err := to.ModuleThere(ctx, m, plan, former); err == nil && there {
		former.Tree = plan.Tree
		*o = former
	}
}

// checkoutOf finds the git checkout that contains a folder, and its path there; nil: none.
func checkoutOf(dir string) (checkout fs.FS, at string) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, ""
	}
	for top := dir; ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			at, err := filepath.Rel(top, dir)
			if err != nil {
				return nil, ""
			}
			return os.DirFS(top), filepath.ToSlash(at)
		}
		if top == filepath.Dir(top) {
			return nil, ""
		}
	}
}

// maxHeld bounds how many files a warning names.
const maxHeld = 10

// HeldBack returns warnings about the files of a folder that were held back, or would be if
// the folder had not been named explicitly.
func HeldBack(hold *archive.HoldBack) (warnings []string) {
	if hold.Ignored != "" {
		warnings = append(warnings, "publishing a folder that git ignores: "+text.Excerpt(hold.Ignored))
	}
	if len(hold.Held) == 0 {
		return warnings
	}
	var names []string
	for _, f := range hold.Held[:min(maxHeld, len(hold.Held))] {
		names = append(names, text.Excerpt(f.Path))
	}
	if more := len(hold.Held) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return append(warnings, "skipped: "+strings.Join(names, ", ")+"; --dry-run shows why, --include GLOB includes them")
}

// PrintPublished prints the outcome of a publication, with its notes.
func PrintPublished(a *App, p depot.Published) error {
	NotePublished(a, p)
	return a.PrintResult(p, p.String())
}

// NotePublished prints the notes about a publication, and no result.
func NotePublished(a *App, p depot.Published) {
	NoteWarnings(a, p)
	if p.Existing {
		a.Note("already published, nothing was pushed")
	}
}

// NoteWarnings prints the warnings, which apply even if nothing was published.
func NoteWarnings(a *App, p depot.Published) {
	for _, w := range p.Warnings {
		a.Note("warning: %s", w)
	}
}

// PublishHint adds advice to the errors of publishing.
func PublishHint(err error) error {
	if conflict, ok := errors.AsType[*depot.ConflictError](err); ok {
		return WithHint(err, "%s", conflictHint(conflict))
	}
	if _, ok := errors.AsType[*addr.SyntaxError](err); ok {
		return UsageError("%w", err)
	}
	if _, ok := errors.AsType[*client.Error](err); ok {
		return ServerHint(err)
	}
	switch {
	case errors.Is(err, depot.ErrNoModule):
		return WithHint(err, "specify the folder with the module's files")
	case errors.Is(err, description.ErrInvalid):
		return WithHint(err, "run tofu validate for details; --force publishes the files as they are")
	case errors.Is(err, description.ErrOutside):
		return WithHint(err, "publish a folder that contains both with --package-root DIR; users then refer to //SUBDIR")
	case errors.Is(err, depot.ErrManifest):
		return WithHint(err, "set the provider's protocols with --protocols 5.0, as the manifest would")
	case errors.Is(err, description.ErrAbsent):
		return WithHint(err, "add the folder, or include it if --dry-run lists it as excluded; --force publishes the files as they are")
	case errors.Is(err, trust.ErrUnsigned):
		return WithHint(err, "sign it with --sign-key FILE; `okara keys new` creates a key")
	case errors.Is(err, signing.ErrNoProvider):
		return WithHint(err, "publish the folder that GoReleaser writes: zips named terraform-provider-TYPE_VERSION_OS_ARCH.zip with the plugin in their root")
	case errors.Is(err, archive.ErrUnsafe), errors.Is(err, archive.ErrTooLarge), errors.Is(err, syntax.ErrTooComplex):
		return WithHint(err, "rename or replace the file, or exclude it in .terraformignore")
	}
	return err
}

// conflictHint names a version that can be published instead.
func conflictHint(c *depot.ConflictError) string {
	hint := "a published version never changes; publish under a new version"
	switch {
	case c.Grows:
		return "--extend adds the platforms that the version lacks"
	case strings.HasPrefix(c.Offered, "protocols "):
		return fmt.Sprintf("put the registry manifest next to the zips, or set --%s", strings.ReplaceAll(c.Stored, ", ", ","))
	case c.Withdrawn != nil && c.Stored == "" && c.Duplicate == addr.Version{}:
		hint = "okara yank --undo restores its content, unless the registry has garbage-collected it; new content needs a new version"
	}
	if c.Next != (addr.Version{}) {
		hint += fmt.Sprintf(", such as %s", c.Next)
	}
	return hint
}
