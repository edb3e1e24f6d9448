// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

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
