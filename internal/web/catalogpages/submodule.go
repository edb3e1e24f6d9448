// SPDX-License-Identifier: Apache-2.0

package catalogpages

import (
	"cmp"
	"context"
	"html/template"
	"path"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/web/markdown"
	"github.com/seed-141914ff/okara/internal/web/site"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// submoduleBody is the page of a directory of a module: a submodule or an example.
type submoduleBody struct {
	moduleBody
	Example bool
	Code    []codeFile // of an example; nil: not available now
	Called  bool       // in the code, relative sources are replaced by the address of the module
	Files   string     // page of its files, below Up; "": none
}

// codeFile is a source file on a page.
type codeFile struct {
	site.Link
	Code template.HTML
}

// Bounds of the code of an example on its page.
const (
	maxCodeFiles = 10
	maxCode      = 64 << 10 // bytes of a file
)

func (s *modules) submodule(r *site.Request) (*site.Page, error) {
	x, err := s.versionIn(r)
	if err != nil {
		return nil, err
	}
	at := r.PathValue("path")
	all := slices.Concat(x.d.Submodules, x.d.Examples)
	i := slices.IndexFunc(all, func(d artifact.DescribedModule) bool { return d.Path == at })
	if i < 0 {
		return nil, site.NotFound("module %s %s has no directory %q with configuration", x.m, x.v, at)
	}
	body := submoduleBody{moduleBody: s.body(r, x), Example: i >= len(x.d.Submodules)}
	body.dirBody = s.dir(r, all[i])
	source := s.hosts.Of(r) + "/" + x.m.String()
	body.Inputs.Block = description.ModuleBlock(path.Base(at), source+"//"+at, description.ConstraintFor(x.v), all[i].Variables())
	body.Inputs.cutInputs(r)
	body.cutPages(r)
	s.renderDescriptions(&body.dirBody)
	s.renderReadme(r, &body.moduleBody, all[i])
	if s.files.archives != nil {
		body.Files = body.Base + "/files/" + site.EscapePath(at)
	}
	if body.Example && s.files.archives != nil {
		body.Code, body.Called = s.exampleCode(r, x.mv, body.Files, at, callable{source, description.ConstraintFor(x.v)})
	}
	return &site.Page{
		Template: "submodule.html", Title: at, Body: body,
		Crumbs:  []site.Link{{Text: "Catalog"}, {Text: x.m.Namespace, Href: "modules/" + x.m.Namespace}, {Text: x.m.String() + " " + x.v.String(), Href: body.Base}},
		Command: "okara show " + x.m.String() + "@" + x.v.String(),
	}, nil
}

// exampleCode returns the configuration in a directory of the archive, with main.tf
// first. Files that cannot be read in time are left out: the page links to them.
func (s *modules) exampleCode(r *site.Request, mv *catalog.ModuleVersion, page, dir string, to callable) (all []codeFile, called bool) {
	ctx, stop := context.WithTimeout(r.Context(), partTime)
	defer stop()
	soon := *r
	soon.Request = r.WithContext(ctx)
	list, err := s.files.list(&soon, mv)
	if err != nil {
		return nil, false
	}
	var names []string
	for _, f := range list {
		if name, ok := strings.CutPrefix(f.Path, dir+"/"); ok && isCode(name) && f.Size <= maxCode {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(fileOrder(a), fileOrder(b)) })
	for _, name := range names[:min(len(names), maxCodeFiles)] {
		b, err := s.files.readFile(&soon, mv, dir+"/"+name)
		if err != nil || !site.IsText(string(b)) {
			continue
		}
		code := to.withAddress(string(b), dir)
		called = called || code != string(b)
		all = append(all, codeFile{site.Link{Text: name, Href: page + "/" + site.EscapePath(name)}, s.text.Source(code, markdown.LanguageOf(name)).HTML})
	}
	return all, called
}

// isCode reports whether a file of a directory is configuration that a tool reads.
func isCode(name string) bool {
	return !strings.Contains(name, "/") && (strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tofu"))
}

// fileOrder sorts the main file first.
func fileOrder(name string) int {
	if strings.HasPrefix(name, "main.") {
		return 0
	}
	return 1
}

// callable is the source and version of a module for a module block.
type callable struct{ source, version string }

var (
	shortBlock     = text.Pattern(`\{[ \t]*(source[ \t]*=[ \t]*"\.\.?(?:/[^"$%]*)?")[ \t]*\}`)
	relativeSource = text.Pattern(`(?m)^([ \t]*)source[ \t]*=[ \t]*"(\.\.?(?:/[^"$%]*)?)"`)
)

// withAddress replaces relative sources in the code of a directory by the address and version
// of the module, as other configurations write them.
func (c callable) withAddress(code, dir string) string {
	code = shortBlock().ReplaceAllString(code, "{\n  $1\n}")
	return relativeSource().ReplaceAllStringFunc(code, func(found string) string {
		m := relativeSource().FindStringSubmatch(found)
		at := path.Join(dir, m[2])
		if at == ".." || strings.HasPrefix(at, "../") {
			return found
		}
		source := c.source
		if at != "." {
			source += "//" + at
		}
		return m[1] + "source  = " + text.HCL(source) + "\n" + m[1] + "version = " + text.HCL(c.version)
	})
}
