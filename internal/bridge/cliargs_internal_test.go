// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"strings"
	"testing"
)

// TestEnvironmentArguments: okara's arguments are removed, all others stay, word by word.
func TestEnvironmentArguments(t *testing.T) {
	env := map[string]string{
		"TF_CLI_ARGS_init": `-backend-config='path=a b' -input=false -backend-config x.tfbackend "-var=a=it's"`,
		"TF_CLI_ARGS":      "-no-color",
	}
	words, environ, err := environmentArguments(commandLine{Command: "init"}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"-backend-config=path=a b", "-input=false", "-backend-config", "x.tfbackend", "-var=a=it's", "-no-color"}; !slices.Equal(words, want) {
		t.Errorf("words %q", words)
	}
	if want := []string{`TF_CLI_ARGS_init=-input=false '-var=a=it'\''s'`}; !slices.Equal(environ, want) {
		t.Errorf("environment %q", environ)
	}
	line := parseCommandLine(withEnvironment([]string{"-chdir=x", "init", "-backend-config=last=1"}, words, "init"))
	if want := []string{"path=a b", "x.tfbackend", "last=1"}; !slices.Equal(line.BackendConfig, want) || line.Dir != "x" {
		t.Errorf("%+v", line)
	}
	if _, _, err := environmentArguments(commandLine{Command: "plan"}, func(name string) string { return map[string]string{"TF_CLI_ARGS_plan": `"open`}[name] }); err == nil || !strings.Contains(err.Error(), "TF_CLI_ARGS_plan") {
		t.Errorf("an open quote: %v", err)
	}
	if words, environ, err := environmentArguments(commandLine{}, func(string) string { return "x" }); words != nil || environ != nil || err != nil {
		t.Errorf("without a subcommand: %q, %q, %v", words, environ, err)
	}
	words, _, err = environmentArguments(parseCommandLine([]string{"-chdir=x", "state", "list", "-id=y"}), func(name string) string {
		return map[string]string{"TF_CLI_ARGS_state_list": "-var=a=b", "TF_CLI_ARGS_state": "no"}[name]
	})
	if err != nil || !slices.Equal(words, []string{"-var=a=b"}) {
		t.Errorf("of a command below another: %q, %v", words, err)
	}
}
