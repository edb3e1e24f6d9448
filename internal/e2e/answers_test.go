// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// answered lists commands in order; a line with < is input of the next.
const answered = `version
-help
init -help
nosuchcommand
fmt -check
<x =   1
fmt -
validate
providers
init
validate
validate -json
fmt
providers
providers schema -json
graph
metadata functions -json
<1 + 2
console
output
output nothing
show
plan -detailed-exitcode
plan -out=plan
show -json plan
apply plan
output
output -json
output -raw text
state list
state show terraform_data.x
state pull
state mv terraform_data.x terraform_data.z
state mv terraform_data.z terraform_data.x
state rm terraform_data.none
taint terraform_data.none
workspace list
workspace new other
workspace show
workspace select default
workspace delete other
import terraform_data.none id
force-unlock -force none
apply -auto-approve
apply -auto-approve -var=unknown=1
destroy -auto-approve
show -json`

// volatile matches what differs between any two runs.
var volatile = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|after \d+m?s`)

// TestSameAnswers: with and without wrapper, equal exit codes and outputs where no state is.
func TestSameAnswers(t *testing.T) {
	eachTool(t, func(t *testing.T, c *cloud) {
		name := "tofu"
		if c.tool != c.set.tofu {
			name = "terraform"
		}
		stock := answers(t, c, []string{c.tool})
		wrapped := answers(t, c, []string{c.set.okara, name})
		if len(stock) < 35 {
			t.Errorf("%d commands", len(stock))
		}
		for i, want := range stock {
			if got := wrapped[i]; got != want {
				t.Errorf("with the wrapper\n%s\nwithout\n%s", got, want)
			}
		}
	})
}

// answers runs the commands in a new folder, and returns the output of each.
func answers(t *testing.T, c *cloud, tool []string) []string {
	t.Helper()
	dir := filepath.Join(c.dir, "answers")
	succeed(t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)))
	const config = "resource \"terraform_data\" \"x\" {\n  input = \"a\"\n}\noutput \"text\" {\n  value =   terraform_data.x.output\n}\n"
	succeed(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(config), 0o600))
	var all []string
	input := ""
	for line := range strings.SplitSeq(answered, "\n") {
		if text, ok := strings.CutPrefix(line, "<"); ok {
			input = text + "\n"
			continue
		}
		cmd := exec.CommandContext(t.Context(), tool[0], append(tool[1:len(tool):len(tool)], strings.Fields(line)...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
		cmd.Env = append(os.Environ(), "HOME="+c.dir, "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+os.DevNull, "OKARA_TOFU="+c.tool, "OKARA_TERRAFORM="+c.tool)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s: exit code %d\nstdout: %s\nstderr: %s", line, cmd.ProcessState.ExitCode(), out.String(), errs.String())
		all, input = append(all, volatile.ReplaceAllString(text, "X")), ""
	}
	return all
}
