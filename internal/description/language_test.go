// SPDX-License-Identifier: Apache-2.0

package description_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const languagePage = "../../docs/reference/language.md"

// TestLanguage writes the table, or compares the column of the pinned OpenTofu with it: what the tool takes, and what
// okara makes of it. OKARA_LANGUAGE has more tools, as NAME=PATH, and OKARA_LANGUAGE_SOURCE the source of a newer one.
func TestLanguage(t *testing.T) {
	tools := [][2]string{{"OpenTofu 1.12.6", tofutest.Tofu(t)}}
	for more := range strings.FieldsSeq(os.Getenv("OKARA_LANGUAGE")) {
		name, path, _ := strings.Cut(more, "=")
		tools = append(tools, [2]string{strings.ReplaceAll(name, "_", " "), path})
	}
	rows := []string{"| argument | described | compared | locked |", "|---|---|---|---|"}
	for _, tool := range tools {
		rows[0], rows[1] = rows[0]+" "+tool[0]+" |", rows[1]+"---|"
	}
	yes, onlyFor := map[bool]string{true: "yes", false: "–"}, map[string]map[string]string{}
	for _, l := range tofutest.Language {
		was, is := describeText(t, l.Without), describeText(t, l.With)
		described := string(must.Get(description.EncodeDescription(was))(t)) != string(must.Get(description.EncodeDescription(is))(t))
		needs := func(text string) []string {
			return required(t, fstest.MapFS{"main.tf": {Data: []byte(text)}, "m/main.tf": {}})
		}
		locked := !slices.Equal(needs(l.Without), needs(l.With))
		var row strings.Builder
		row.WriteString(fmt.Sprintf("| %s | %s | %s | %s |", l.Argument, yes[described], yes[len(description.Compare(was, is)) > 0], yes[locked]))
		for _, tool := range tools {
			row.WriteString(" " + yes[acceptsText(t, tool[1], l.With)] + " |")
		}
		rows = append(rows, row.String())
		onlyFor[fmt.Sprintf("| %s |", l.Argument)] = is.Root.OnlyFor
	}
	page := string(must.Get(os.ReadFile(languagePage))(t))
	before, table, _ := strings.Cut(page, "| argument |")
	if os.Getenv("OKARA_UPDATE") != "" {
		had, after, _ := strings.Cut("| argument |"+table, "\n\n")
		must.Succeed(t, os.WriteFile(languagePage, []byte(before+strings.Join(withColumns(rows, strings.Split(had, "\n")), "\n")+"\n\n"+after), 0o644))
	}
	for _, row := range rows[2:] {
		if os.Getenv("OKARA_UPDATE") == "" && !strings.Contains(page, "\n"+row) { // of the first tool: others follow
			t.Errorf("%s lacks %s", languagePage, row)
		}
	}
	newest := regexp.MustCompile(`(?m)^(\| .* \|).*\| (yes|–) \| (yes|–) \| (yes|–) \|[^|]*\|$`) // what the tools accept
	for row := range strings.SplitSeq(page, "\n") {
		cells := newest.FindStringSubmatch(row)
		if cells == nil {
			continue
		}
		first := "| " + strings.Split(row, " | ")[0][2:] + " |"
		if only := onlyFor[first]; only == nil && cells[2] != cells[3] || (only["opentofu"] != "") != (cells[2] == "yes" && cells[3] != "yes") || (only["terraform"] != "") != (cells[3] == "yes" && cells[2] != "yes") {
			t.Errorf("%s is described as only for %v", row, only)
		}
	}
	if source := os.Getenv("OKARA_LANGUAGE_SOURCE"); source != "" {
		findGaps(t, source)
	}
}

// withColumns adds the columns that only the table before has, whose tools did not run.
func withColumns(rows, before []string) []string {
	had := map[string][]string{}
	for _, row := range before {
		cells := strings.Split(row, "|")
		had[cells[1]] = cells
	}
	var out []string
	names, now := strings.Split(before[0], "|"), strings.Split(rows[0], "|")
	for _, row := range rows {
		for i, cell := range had[strings.Split(row, "|")[1]] {
			if !slices.Contains(now, names[i]) {
				row += cell + "|"
			}
		}
		out = append(out, row)
	}
	return out
}

// findGaps tells which arguments in the schemas of a tool are neither in the table nor known since 1.7.
func findGaps(t *testing.T, source string) {
	const known = "description default type sensitive validation value depends_on precondition postcondition source version count for_each providers provider alias lifecycle connection provisioner " +
		"create_before_destroy prevent_destroy ignore_changes replace_triggered_by from to id required_version nullable removed destroy backend cloud provider_meta required_providers experiments dynamic locals variable output module resource moved import terraform assert when on_failure command condition error_message"
	var words strings.Builder
	words.WriteString(known)
	for _, l := range tofutest.Language {
		words.WriteString(" " + l.With)
	}
	name, files := regexp.MustCompile(`(?:Name|Type):\s*"([a-z][a-z_]+)"`), must.Get(filepath.Glob(filepath.Join(source, "internal", "configs", "*.go")))(t)
	for _, file := range slices.DeleteFunc(files, func(f string) bool {
		return slices.ContainsFunc([]string{"_test.go", "test_file", "mock", "query_file", "migrate_file"}, func(other string) bool { return strings.Contains(f, other) })
	}) {
		for _, m := range name.FindAllStringSubmatch(string(must.Get(os.ReadFile(file))(t)), -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(words.String()) {
				t.Errorf("not in the table: %s of %s", m[1], filepath.Base(file))
			}
		}
	}
}

func describeText(t *testing.T, text string) artifact.ModuleDescription {
	t.Helper()
	tree := fstest.MapFS{"main.tf": {Data: []byte(text)}, "m/main.tf": {}}
	v := must.Get(description.NewModule(tree, must.Get(archive.List(t.Context(), tree, archive.Options{All: true}))(t)))(t)
	return v.Describe(addr.ModuleVersion{}, "")
}

// acceptsText reports whether init and validate find fault with nothing but providers, which it has none of.
func acceptsText(t *testing.T, tool, text string) bool {
	t.Helper()
	dir := t.TempDir()
	main, child := text, "\n"
	if strings.HasPrefix(text, "output") { // Terraform 1.16 refuses a deprecated one of a root module
		main, child = "module \"m\" {\n  source = \"./m\"\n}", text
	}
	must.Succeed(t, os.CopyFS(dir, fstest.MapFS{
		"main.tf": {Data: []byte(main)}, "m/main.tf": {Data: []byte(child)}, "none": {Mode: os.ModeDir | 0o755},
		"cli.tfrc": {Data: []byte("provider_installation {\n  filesystem_mirror {\n    path = \"" + dir + "/none\"\n  }\n}\n")},
	}))
	for _, args := range [][]string{{"init", "-backend=false", "-no-color", "-input=false"}, {"validate", "-no-color"}} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TF_CLI_CONFIG_FILE="+dir+"/cli.tfrc", "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1")
		out, err := cmd.CombinedOutput()
		for _, m := range regexp.MustCompile(`(?m)Error: (.*)$`).FindAllStringSubmatch(string(out), -1) {
			if !strings.Contains(m[1], "provider packages") && !strings.Contains(m[1], "provider configuration") {
				return false
			}
		}
		if err != nil {
			break // it lacks a provider
		}
	}
	return true
}
