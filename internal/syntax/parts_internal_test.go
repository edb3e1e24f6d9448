// SPDX-License-Identifier: Apache-2.0

package syntax

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// TestDecodeParts decodes into two structs as into one.
func TestDecodeParts(t *testing.T) {
	type block struct {
		Name  string    `hcl:"name,label"`
		Size  int       `hcl:"size"`
		Range hcl.Range `hcl:",def_range"`
	}
	type core struct {
		Listen   string    `hcl:"listen"`
		ListenAt hcl.Range `hcl:"listen,attr_value_range"`
		Kept     *block    `hcl:"kept,block"`
	}
	type more struct {
		Quotas []block `hcl:"quota,block"`
		Rate   int     `hcl:"rate,optional"`
	}
	type whole struct {
		Listen string  `hcl:"listen"`
		Kept   *block  `hcl:"kept,block"`
		Quotas []block `hcl:"quota,block"`
		Rate   int     `hcl:"rate,optional"`
	}
	for name, words := range map[string]string{
		"all":             "listen = \"a\"\nrate = 3\nquota \"x\" {\n  size = 1\n}\nkept \"k\" {\n  size = 2\n}\n",
		"unknown":         "listen = \"a\"\n\ncolour = 1\n",
		"nearly known":    "listen = \"a\"\nrates = 1\n",
		"unknown block":   "listen = \"a\"\nquotas \"x\" {}\n",
		"missing":         "rate = 1\n",
		"missing inside":  "listen = \"a\"\n\nquota \"x\" {}\n",
		"unknown inside":  "listen = \"a\"\nquota \"x\" {\n  size = 1\n  sizes = 2\n}\n",
		"of another type": "listen = \"a\"\nrate = \"many\"\n",
		"twice":           "listen = \"a\"\nkept \"a\" {\n  size = 1\n}\nkept \"b\" {\n  size = 1\n}\n",
		"no label":        "listen = \"a\"\nquota {\n  size = 1\n}\n",
		"no HCL":          "listen = \n",
		"a variable":      "listen = a\n",
		"too complex":     "listen = \"a\"\nrate = " + strings.Repeat("1+", 200) + "1\n",
	} {
		for file, src := range map[string]string{"a.hcl": words, "a.json": `{"listen": "a", "rate": 3, "quota": {"x": {"size": 1}}, "` + name + `": 1}`} {
			t.Run(name+" "+file, func(t *testing.T) {
				var one whole
				first, second := core{Kept: &block{Name: "before"}}, more{Rate: 7}
				kept := first.Kept
				want, got := Decode([]byte(src), file, &one), DecodeParts([]byte(src), file, &first, &second)
				if Wrong(want) == nil != (Wrong(got) == nil) || Wrong(got) != nil && Wrong(got).Error() != Wrong(want).Error() {
					t.Fatalf("got %v\nwant %v", Wrong(got), Wrong(want))
				}
				if name == "all" && file == "a.hcl" && (first.Listen != "a" || first.ListenAt.Start.Line != 1 || kept.Name != "k" || len(second.Quotas) != 1 || second.Rate != 3) {
					t.Errorf("got %+v, %+v, %+v", first, kept, second)
				}
			})
		}
	}
}
