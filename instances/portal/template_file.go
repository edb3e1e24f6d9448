// SPDX-License-Identifier: Apache-2.0

package portal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/instances/template"
)

// maxTemplateFiles bounds a folder of templates.
const maxTemplateFiles = 1000

// templateFile is what was read last of a file.
type templateFile struct {
	read      bool // text is that of the file; else it could not be read
	text      string
	templates []*template.Template // of the last text without a mistake
	problem   string               // with the file or its text; "": none
}

// readFiles adds the templates of the folder, file by file in the order of their
// names. The first of two templates of one name counts.
func (t *Templates) readFiles(found map[string]*Entry) []TemplateProblem {
	if t.o.Dir == "" {
		return nil
	}
	var problems []TemplateProblem
	names, err := TemplateFiles(t.o.Dir)
	if err != nil {
		problems = append(problems, TemplateProblem{t.o.Dir, err.Error()})
		for name := range t.files {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	now := map[string]templateFile{}
	for _, name := range names {
		f := t.files[name]
		if err == nil {
			f = t.readFile(name)
		}
		now[name] = f
		if f.problem != "" {
			problems = append(problems, TemplateProblem{name, f.problem})
		}
		for _, tmpl := range f.templates {
			if first, ok := found[tmpl.Name]; ok {
				problems = append(problems, TemplateProblem{name, fmt.Sprintf("template %s: %s:1: it is also in %s, which counts", tmpl.Name, name, first.From)})
				continue
			}
			found[tmpl.Name] = &Entry{Template: tmpl, From: name}
		}
	}
	t.files = now
	return problems
}

// TemplateFiles names the files of templates in a folder.
func TemplateFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if path.Ext(e.Name()) == ".hcl" && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	if len(names) > maxTemplateFiles {
		return nil, fmt.Errorf("%s has %d files of templates, at most %d", dir, len(names), maxTemplateFiles)
	}
	return names, nil
}

// readFile parses a file that is another one now, and else keeps what it was.
func (t *Templates) readFile(name string) templateFile {
	before := t.files[name]
	b, err := ReadTemplateFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return templateFile{} // it went between the list and now
	}
	if err != nil {
		return templateFile{templates: before.templates, problem: err.Error()}
	}
	if before.read && before.text == string(b) {
		return before
	}
	list, err := template.Parse(b, name, t.o.Known)
	if err != nil {
		return templateFile{true, string(b), before.templates, err.Error()}
	}
	return templateFile{true, string(b), list, ""}
}

// ReadTemplateFile reads a regular file, and little more than a file of templates
// may have.
func ReadTemplateFile(name string) ([]byte, error) {
	info, err := os.Stat(name) // before it is opened: a pipe would wait
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, template.MaxFile+1))
}
