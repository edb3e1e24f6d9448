// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// rule is a change of a module with its effect on callers.
type rule struct {
	what        string // as the page tells it
	before, now string // main.tf, or files after lines such as -- modules/a/main.tf --
	effect      string // of the worst difference; "": there is none
	detail      string // in a difference
}

// rulesOfCompare are the rules of the page, with an example each.
func rulesOfCompare() []rule {
	input := func(arguments string) string { return "variable \"a\" {\n" + arguments + "\n}\n" }
	provider := func(version string) string {
		return "terraform {\n required_providers {\n  aws = {\n   source = \"hashicorp/aws\"\n   " + version + "\n  }\n }\n}\n"
	}
	tool := func(version string) string { return "terraform {\n required_version = \"" + version + "\"\n}\n" }
	output := func(arguments string) string { return "output \"a\" {\n value = 1\n" + arguments + "\n}\n" }
	const more = "validation {\n condition = var.a > 100\n error_message = \"no\"\n}\n"
	const breaks, may, isNew = description.Breaks, description.MayBreak, description.New
	return []rule{
		{"an input is removed", input("default = 1"), "", breaks, ""},
		{"a required input is added", "", input("type = string"), breaks, "string, required"},
		{"an optional input is added", "", input("default = 1"), isNew, "any, default 1"},
		{"an input becomes required", input("default = 1"), input(""), breaks, "any, default 1 → any, required"},
		{"an input becomes optional", input(""), input("default = 1"), isNew, ""},
		{"another default", input("default = 1"), input("default = 2"), may, ""},
		{"a type that takes less", input("type = string"), input("type = list(string)"), breaks, ""},
		{"a type that takes some values of the old one", input("type = string"), input("type = number"), may, ""},
		{"a type that takes more", input("type = number"), input("type = string"), isNew, ""},
		{"any type", input("type = number"), input("type = any"), isNew, ""},
		{"a type instead of any", input("type = any"), input("type = number"), may, ""},
		{"a list instead of a set", input("type = set(string)"), input("type = list(string)"), isNew, ""},
		{"an attribute that an object needs", input("type = object({b = string})"), input("type = object({b = string, c = string})"), breaks, ""},
		{"an optional attribute of an object", input("type = object({b = string})"), input("type = object({b = string, c = optional(string)})"), isNew, ""},
		{"an attribute of an object that becomes required", input("type = list(object({b = optional(string)}))"), input("type = list(object({b = string}))"), breaks, ""},
		{"an attribute of an object that becomes optional", input("type = list(object({b = string}))"), input("type = list(object({b = optional(string)}))"), isNew, ""},
		{"an attribute of an object that is dropped", input("type = object({b = string, c = string})"), input("type = object({b = string})"), may, ""},
		{"another default of an attribute, beside a new attribute", input("type = list(object({b = optional(string, \"x\")}))"), input("type = list(object({b = optional(string, \"y\"), c = optional(string)}))"), may, ""},
		{"another default of an attribute", input("type = object({b = optional(string, \"x\")})"), input("type = object({b = optional(string, \"y\")})"), may, ""},
		{"another order of the attributes of an object", input("type = object({\n b = string\n c = optional(number, 1)\n })"), input("type = object({ c = optional(number, 1), b = string })"), isNew, "object({ b = string, c = optional(number, 1) }), required →"},
		{"a comment in a type", input("type = list(string)"), input("type = list( # of names\n string)"), "", ""},
		{"an input is no longer nullable", input("type = string"), input("type = string\n nullable = false"), may, "not nullable"},
		{"an input becomes sensitive", input(""), input("sensitive = true"), may, ", sensitive"},
		{"an input is no longer sensitive", input("sensitive = true"), input(""), isNew, ""},
		{"an input becomes ephemeral", input(""), input("ephemeral = true"), may, ", ephemeral"},
		{"an input is no longer ephemeral", input("ephemeral = true"), input(""), breaks, ""},
		{"an input becomes const", input(""), input("const = true"), may, ", const"},
		{"an input becomes deprecated", input(""), input(`deprecated = "use b"`), description.New, ", deprecated"},
		{"a validation is added or changed", input("validation {\n condition = var.a > 100\n error_message = \"no\"\n}"), input("validation {\n condition = var.a > 1\n error_message = \"no\"\n}"), may, "var.a > 100 → var.a > 1"},
		{"another spelling of a validation", input("validation {\n condition = contains([1,2],var.a)\n error_message = \"no\"\n}"), input("validation {\n condition = contains([1, 2], # or\n  var.a)\n error_message = \"yes\"\n}"), "", ""},
		{"a validation is added or changed", input("default = 1"), "-- main.tf.json --\n" + `{"variable": {"a": {"default": 1, "validation": {"condition": "${var.a > 1}", "error_message": "no"}}}}`, may, "1 validation"},
		{"another spelling of a validation", input("validation {\n condition = var.a != \"}\"\n error_message = \"no\"\n}"), "-- main.tf.json --\n" + `{"variable": {"a": {"validation": [{"condition": "${var.a != \"}\"}", "error_message": "no"}]}}}`, "", ""},
		{"a validation is added or changed", input(strings.Repeat(more, 30)), input(strings.Repeat(more, 30) + strings.Replace(more, "100", "7", 1)), may, "more validations"},
		{"another spelling of a validation", input(strings.Replace(more, "100", strings.Repeat(" ", 5000)+"100", 1)), input(strings.Replace(more, "100", strings.Repeat(" ", 5001)+"100", 1)), "", ""},
		{"a validation is removed", input("validation {\n condition = var.a > 1\n error_message = \"no\"\n}"), input(""), isNew, ""},
		{"an output is removed", output(""), "", breaks, ""},
		{"an output is added", "", output(""), isNew, ""},
		{"an output becomes sensitive", output(""), output("sensitive = true"), may, "sensitive"},
		{"an output becomes ephemeral", output(""), output("ephemeral = true"), may, "ephemeral"},
		{"an output becomes deprecated", output(""), output("deprecated = \"use b\""), isNew, "deprecated"},
		{"another type of an output", "-- main.tf.json --\n" + `{"output": {"a": {"value": 1, "type": "string"}}}`, output("type = number"), may, "string → number"},
		{"a comment in a type", output("type = list(string)"), "-- main.tf.json --\n" + `{"output": {"a": {"value": 1, "type": "list(string)"}}}`, "", ""},
		{"another type of an output", output("type = string"), output("type = number"), may, "string → number"},
		{"a higher minimum of a provider", provider(`version = ">= 5.10"`), provider(`version = ">= 5.79"`), may, ">= 5.10 → hashicorp/aws >= 5.79"},
		{"a minimum of a provider in another major version", provider(`version = ">= 5.79"`), provider(`version = ">= 6.28"`), breaks, ""},
		{"an upper bound of a provider", provider(`version = ">= 5.79"`), provider(`version = ">= 5.79, < 7.0"`), may, ""},
		{"more versions of a provider", provider(`version = "~> 5.0"`), provider(`version = ">= 5.0, < 7.0"`), isNew, ""},
		{"another source of a provider", provider(""), strings.ReplaceAll(provider(""), "hashicorp", "acme"), breaks, ""},
		{"a provider is added", "", provider(""), may, ""},
		{"a provider that is part of the tool", "data \"null_data_source\" \"a\" {}\n", "data \"null_data_source\" \"a\" {}\ndata \"terraform_remote_state\" \"a\" {}\n", isNew, ""},
		{"a provider is removed", provider(""), "", isNew, ""},
		{"an alias of a provider, which callers pass", provider(""), provider("configuration_aliases = [aws.peer]"), breaks, "aws.peer"},
		{"a higher minimum of the tool", tool(">= 1.5"), tool(">= 1.9"), may, ""},
		{"a minimum of the tool in another major version", tool(">= 0.13"), tool(">= 1.0"), breaks, ""},
		{"a minimum of the tool is added", "", tool(">= 1.0"), may, ""},
		{"a tool of a language block", "-- main.tf --\n", "-- main.tf --\n\n-- lang.tofu --\nlanguage {\n compatible_with {\n  opentofu = \">= 1.12\"\n }\n}\n", may, ">= 1.12"},
		{"what only one tool accepts is added", "resource \"terraform_data\" \"a\" {}\n", "resource \"terraform_data\" \"a\" {\n lifecycle {\n  enabled = true\n }\n}\n", breaks, "enabled"},
		{"what only one tool accepts is removed", "provider \"aws\" {\n for_each = {}\n alias = \"a\"\n}\n", "provider \"aws\" {\n alias = \"a\"\n}\n", isNew, ""},
		{"the first type of an output, which only one tool accepts", output(""), output("type = string"), breaks, "string"},
		{"a file that only one tool reads", output(""), "-- main.tofu --\n" + output(""), breaks, ".tofu files"},
		{"a change in what Terraform reads beside `.tofu` files", "-- main.tofu --\n" + output("") + "-- main.tf --\n" + input("default = 1"), "-- main.tofu --\n" + output("") + "-- main.tf --\n" + input(""), breaks, "any, default 1 → any, required"},
		{"a resource is removed", "resource \"null_resource\" \"a\" {}\n", "data \"null_data_source\" \"b\" {}\n", may, ""},
		{"a resource is renamed by a moved block", "resource \"null_resource\" \"a\" {}\n", "resource \"null_resource\" \"b\" {}\nmoved {\n from = null_resource.a\n to = null_resource.old\n}\nmoved {\n from = null_resource.old\n to = null_resource.b\n}\n", isNew, "null_resource.a → null_resource.b"},
		{"a resource is moved into a module", "resource \"terraform_data\" \"a\" {}\n", "module \"m\" {\n source = \"./modules/x\"\n}\nmoved {\n from = terraform_data.a\n to = module.m.terraform_data.a\n}\n-- modules/x/main.tf --\nresource \"terraform_data\" \"a\" {}\n", isNew, "terraform_data.a → module.m.terraform_data.a"},
		{"one instance of a resource is moved, and the resource removed", "resource \"null_resource\" \"a\" {}\n", "resource \"null_resource\" \"b\" {}\nmoved {\n from = null_resource.a[0]\n to = null_resource.b\n}\n", may, ""},
		{"a resource is added", "data \"null_data_source\" \"a\" {}\n", "data \"null_data_source\" \"a\" {}\nresource \"null_resource\" \"a\" {}\n", isNew, ""},
		{"a submodule is removed", "-- modules/x/main.tf --\n" + input(""), "", breaks, ""},
		{"a submodule is added", "", "-- modules/x/main.tf --\n" + input(""), isNew, ""},
		{"a change in a submodule: as above", "-- modules/x/main.tf --\n" + input("default = 1"), "-- modules/x/main.tf --\n" + input("default = 2"), may, ""},
	}
}

// TestCompareFolder: callers address the folder of a module in its package.
func TestCompareFolder(t *testing.T) {
	was, is := describe(t, "1.0.0", "variable \"a\" {}\n"), describe(t, "1.1.0", "variable \"a\" {}\n")
	for dir, want := range map[string]string{"": "", ".": "", "one": "// → //one"} {
		is.Dir = dir
		var got strings.Builder
		for _, d := range description.Compare(was, is) {
			got.WriteString(d.Effect + " " + d.Detail)
		}
		if want == "" && got.String() != "" || !strings.Contains(got.String(), want) || want != "" && !strings.HasPrefix(got.String(), description.Breaks) {
			t.Errorf("%q: %s", dir, got.String())
		}
	}
}

// TestCompareRules holds each rule to its example, and the page to the rules.
func TestCompareRules(t *testing.T) {
	page := must.Fixed(os.ReadFile("../../docs/reference/compare-modules.md"))
	for _, r := range rulesOfCompare() {
		got := description.Compare(describe(t, "1.0.0", r.before), describe(t, "1.1.0", r.now))
		worst, details := "", ""
		for _, d := range got {
			if worst == "" { // the worst is the first
				worst = d.Effect
			}
			details += d.Detail + "\n"
			if d.Breaking != (d.Effect == description.Breaks) {
				t.Errorf("%s: %v", r.what, d)
			}
		}
		if worst != r.effect || !strings.Contains(details, r.detail) {
			t.Errorf("%s: %q, want %q with %q in %v", r.what, worst, r.effect, r.detail, got)
		}
		effect := r.effect
		if effect == "" {
			effect = "no difference"
		}
		if row := fmt.Sprintf("| %s | %s |\n", r.what, effect); !strings.Contains(string(page), row) {
			t.Errorf("the page lacks the row %s", row)
		}
	}
}

// TestTypeLine: a type on one line, without its comments.
func TestTypeLine(t *testing.T) {
	for source, want := range map[string]string{
		"object({\n a = /* first */ string // one\n # alone\n b = string, /* x */ c = number /* y\n z */ \n})": "object({ a = string, b = string, c = number })",
		"map( # of names\n list(/* all */ string))":                                                            "map(list(string))",
		"object({ a = optional(string, \"# no\") /* end */ })":                                                 "object({ a = optional(string, \"# no\") })",
		"object({\n  a = object({ // inner\n    b = string\n    c = bool })\n  # last\n})":                     "object({ a = object({ b = string, c = bool }) })",
		"tuple([string, # one\n  number /* two */, bool])":                                                     "tuple([string, number, bool])",
	} {
		must.Equal(t, source, description.TypeLine(source), want)
	}
}

// TestCompareVersions: a major version announces breaks; nothing differs from itself.
func TestCompareVersions(t *testing.T) {
	for _, tt := range [...]struct {
		was, is string
		want    bool
	}{{"1.2.0", "2.0.0", true}, {"1.2.0", "1.9.0", false}, {"0.1.4", "0.2.0", true}, {"0.1.4", "0.1.5", false}, {"2.0.0", "1.2.0", false}} {
		got := description.Compare(artifact.ModuleDescription{Version: tt.was}, artifact.ModuleDescription{Version: tt.is})
		if (len(got) == 1 && got[0].What == "version" && got[0].Effect == description.MayBreak) != tt.want || len(got) > 1 {
			t.Errorf("%s → %s: %v", tt.was, tt.is, got)
		}
	}
	same := describe(t, "1.0.0", "-- modules/a/main.tf --\nvariable \"a\" {}\n-- main.tf --\noutput \"b\" {\n value = 1\n}\n")
	if got := description.Compare(same, same); len(got) > 0 {
		t.Errorf("a version differs from itself: %v", got)
	}
	short := same
	short.Submodules = []artifact.DescribedModule{{Path: "modules/a"}} // as in a description that was too large
	if got := description.Compare(same, short); len(got) > 0 {
		t.Errorf("a submodule whose description was left out: %v", got)
	}
}

// describe describes a module whose files are written after each other.
func describe(t *testing.T, version, text string) artifact.ModuleDescription {
	t.Helper()
	tree := fstest.MapFS{}
	if !strings.HasPrefix(text, "-- ") {
		text = "-- main.tf --\n" + text
	}
	for file := range strings.SplitSeq(strings.TrimPrefix(text, "-- "), "\n-- ") {
		name, body, _ := strings.Cut(file, " --\n")
		tree[name] = &fstest.MapFile{Data: []byte(body + "\n")}
	}
	files := &archive.Tree{}
	for name := range tree {
		files.Files = append(files.Files, archive.File{Path: name})
	}
	m := must.Get(description.NewModule(tree, files))(t)
	at := addr.ModuleVersion{Version: must.Fixed(addr.ParseVersion(version))}
	return m.Describe(at, ".")
}
