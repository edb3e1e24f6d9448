// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
)

func pack(t testing.TB, files map[string]string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must.Succeed(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}))
		must.Get(w.Write([]byte(files[name])))(t)
	}
	must.Succeed(t, errors.Join(w.Close(), gz.Close()))
	return &b
}

func TestRead(t *testing.T) {
	d := must.Get(description.ReadDocs(pack(t, map[string]string{
		"index.md":                        "---\npage_title: \"dns Provider\"\ndescription: |-\n  Names.\n---\n\n# dns\n",
		"resources/record.md":             "---\npage_title: dns_record\nsubcategory: Zones\n---\nA record.\n",
		"docs/resources/alias.md":         "no front matter\n",
		"d/host.html.markdown":            "---\nlayout: dns\npage_title: \"DNS: dns_host\"\n---\nOld form.\n",
		"guides/upgrade.md":               "---\n: [\n---\nBroken front matter.\n",
		"functions/split.md":              "---\nsubcategory: \"" + strings.Repeat("x", 500) + "\"\n---\n",
		"resources/deep/x.md":             "not a page\n",
		"resources/../../etc/passwd.md":   "not a page\n",
		"cdktf/python/resources/recor.md": "not a page\n",
		"resources/long.md":               strings.Repeat("a", 300<<10),
		"logo.png":                        "not a page\n",
	})))(t)
	want := []description.Page{
		{Path: "index", Kind: description.Overview, Title: "dns Provider", Text: "\n# dns\n"},
		{Path: "guides/upgrade", Kind: description.Guide, Text: "Broken front matter.\n"},
		{Path: "resources/alias", Kind: description.Resource, Text: "no front matter\n"},
		{Path: "resources/long", Kind: description.Resource, Text: strings.Repeat("a", 256<<10), Cut: true},
		{Path: "resources/record", Kind: description.Resource, Title: "dns_record", Subcategory: "Zones", Text: "A record.\n"},
		{Path: "d/host", Kind: description.Data, Title: "DNS: dns_host", Text: "Old form.\n"},
		{Path: "functions/split", Kind: description.Function, Subcategory: strings.Repeat("x", 200)},
	}
	must.Match(t, "value", d.Pages, want, cmpopts.EquateEmpty())
}

func TestReadRefuses(t *testing.T) {
	many := map[string]string{}
	for i := range 70 {
		many["resources/r"+strings.Repeat("x", i)+".md"] = strings.Repeat("a", 250<<10)
	}
	whole := pack(t, map[string]string{"index.md": "x"}).Bytes()
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"not gzip": {[]byte("plain text"), description.ErrDocs},
		"cut":      {whole[:len(whole)/2], description.ErrDocs},
		"bomb":     {pack(t, map[string]string{"resources/a.md": strings.Repeat("\x00", 40<<20)}).Bytes(), description.ErrDocsTooLarge},
		"large":    {pack(t, many).Bytes(), description.ErrDocsTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := description.ReadDocs(bytes.NewReader(c.in)); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(pack(f, map[string]string{"index.md": "---\npage_title: x\n---\ny", "resources/a.md": "z"}).Bytes())
	f.Add(pack(f, map[string]string{"r/a.html.md": "---\na: &a [x]\nb: [*a, *a]\n---\n"}).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := description.ReadDocs(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, description.ErrDocs) {
				t.Fatal(err)
			}
			return
		}
		for _, p := range d.Pages {
			if strings.Contains(p.Path, "..") || len(p.Text) > 3*256<<10 || len(p.Title) > 200 || p.Kind == "" {
				t.Fatalf("%+v", p)
			}
		}
	})
}
