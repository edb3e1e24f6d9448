// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/text"
)

// argumentVariables returns the variables whose words tools insert, the subcommand's first.
func argumentVariables(line commandLine) []string {
	name := "TF_CLI_ARGS_" + line.Command
	if line.Sub != "" && !strings.HasPrefix(line.Sub, "-") {
		name += "_" + line.Sub
	}
	return []string{strings.ReplaceAll(name, "-", "_"), "TF_CLI_ARGS"}
}

// environmentArguments returns the variables' words, and their values without -backend-config.
func environmentArguments(line commandLine, getenv func(string) string) (words []string, environ []string, err error) {
	for _, name := range argumentVariables(line) {
		value := getenv(name)
		if line.Command == "" || value == "" {
			continue
		}
		more, err := shellwords.Parse(value)
		if err != nil {
			return nil, nil, fmt.Errorf("the environment variable %s: %w", name, err)
		}
		words = append(words, more...)
		rest := parseCommandLine(slices.Concat([]string{line.Command}, more)).Rest[1:]
		if len(rest) == len(more) {
			continue
		}
		quoted := make([]string, len(rest))
		for i, word := range rest {
			quoted[i] = text.ShellWord(word)
		}
		environ = append(environ, name+"="+strings.Join(quoted, " "))
	}
	return words, environ, nil
}

// withEnvironment returns a command line with the words inserted where the tools do it.
func withEnvironment(args, words []string, command string) []string {
	i := slices.Index(args, command)
	if i < 0 || len(words) == 0 {
		return args
	}
	return slices.Concat(args[:i+1], words, args[i+1:])
}

// conflictingVariables override a run's profile, and would lead the tool past okara. The backends
// read AWS_S3_ENDPOINT, the AWS SDK the others.
func conflictingVariables() []string {
	return []string{
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_S3_ENDPOINT",
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
	}
}

// checkEnvironment returns an error if a state would go to another server.
func checkEnvironment(getenv func(string) string) error {
	for _, name := range conflictingVariables() {
		if v := getenv(name); v == "" || strings.EqualFold(v, "false") {
			continue
		}
		return fmt.Errorf("environment variable %s is set: the tool would bypass okara for the state\nhint: unset it for this command, or configure it in the AWS provider (endpoints block)", name)
	}
	return nil
}

// lockNote describes a run for those who find its lock: host, processes, the CI job's page.
func lockNote(getenv func(string) string, tool string, pid int64) string {
	note := fmt.Sprintf("okara pid %d, %s pid %d", os.Getpid(), tool, pid)
	if host, err := os.Hostname(); err == nil {
		note += " on " + host
	}
	if page := backendblock.JobPage(getenv); page != "" {
		note += ", " + page
	}
	return note
}
