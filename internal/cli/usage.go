// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/addr"
)

// allowedMistypes is how many letters of a word may be wrong for it to be recognized.
func allowedMistypes(word string) int { return min(2, max(1, len(word)/3)) }

// WordUsage replaces cobra's messages about wrong flags and arguments in a tree of commands.
func WordUsage(root *cobra.Command) {
	root.SetFlagErrorFunc(WrongFlag)
	for _, c := range root.Commands() {
		if c.Name() == "completion" || c.Name() == "help" {
			c.Hidden = true
			textOnly(c)
		}
	}
	usageArgs(root)
}

// textOnly makes one of cobra's own commands, and its subcommands, refuse --json.
func textOnly(cmd *cobra.Command) {
	WithoutJSON(cmd, "omit --json")
	if run := cmd.Run; run != nil {
		cmd.Run = nil
		cmd.RunE = func(cmd *cobra.Command, args []string) error { run(cmd, args); return nil }
	} else if cmd.RunE == nil {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, c := range cmd.Commands() {
		textOnly(c)
	}
}

// usageArgs makes every command of the tree report wrong arguments with okara's own message
// and the exit code for usage errors.
func usageArgs(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := RefuseJSON(cmd); err != nil {
				return err
			}
			return run(cmd, arrangeVersion(cmd, args))
		}
	}
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			args = arrangeVersion(cmd, args)
			err := check(cmd, args)
			if _, exits := errors.AsType[*ExitError](err); err == nil || exits {
				return err
			}
			if cmd.HasSubCommands() && len(argWords(cmd)) == 0 {
				return unknownCommand(cmd, args[0])
			}
			return wrongArgs(cmd, args, err)
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, "|") {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(strings.Split(name, "|"), cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
		}
	})
	for _, c := range cmd.Commands() {
		usageArgs(c)
	}
}

// unknownCommand names the commands that the user may have meant.
func unknownCommand(cmd *cobra.Command, word string) error {
	err := UsageError("unknown command %q for %q", word, cmd.CommandPath())
	if f := cmd.Flags().Lookup("registry"); f != nil && (f.Value.String() == "tofu" || f.Value.String() == "terraform") {
		return WithHint(UsageError("--registry took %q as its value", f.Value), "write `okara %s %s`", f.Value, word)
	}
	if there := commandsNamed(cmd.Root(), word); len(there) > 0 && len(there) <= maxNamed {
		return WithHint(err, "did you mean `%s`?", strings.Join(there, "` or `"))
	}
	cmd.SuggestionsMinimumDistance = allowedMistypes(word)
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return WithHint(err, "did you mean `%s %s`?", cmd.CommandPath(), strings.Join(near, "` or `"+cmd.CommandPath()+" "))
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return WithHint(err, "valid commands are %s; see `%s --help`", strings.Join(names, ", "), cmd.CommandPath())
}

// maxNamed bounds how many commands with the same name a hint lists.
const maxNamed = 4

// commandsNamed returns the paths of the commands in a tree that have a name, or had it before.
func commandsNamed(cmd *cobra.Command, word string) (paths []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && (c.Name() == word || slices.Contains(c.SuggestFor, word)) {
			paths = append(paths, c.CommandPath())
		}
		paths = append(paths, commandsNamed(c, word)...)
	}
	return paths
}

// wrongArgs says which arguments are missing or too many; err is the command's own message.
func wrongArgs(cmd *cobra.Command, args []string, err error) error {
	wanted := argWords(cmd)
	needed := slices.DeleteFunc(slices.Clone(wanted), func(word string) bool { return strings.HasPrefix(word, "[") })
	switch {
	case len(args) < len(needed):
		err := UsageError("missing: %s", strings.Join(needed[len(args):], ", "))
		if needed[len(args)] == "VERSION" && cmd.Flags().Lookup("bump") != nil {
			address, version, _ := strings.Cut(args[len(args)-1], ":")
			if _, wrong := addr.ParseVersion(version); wrong == nil {
				return WithHint(err, "write %s %s or %s@%s", address, version, address, version)
			}
			err = WithHint(err, "add a version such as 1.2.3, or --bump patch, minor or major for the one after the highest release")
		}
		return err
	case len(wanted) == 0:
		err := UsageError("%s takes no arguments, got %q", cmd.CommandPath(), args[0])
		if cmd.Flags().Lookup("config") != nil {
			err = WithHint(err, "set a configuration file with --config: `%s --config %s`", cmd.CommandPath(), args[0])
		}
		return err
	case len(args) <= len(wanted):
		return UsageError("%w", err)
	}
	return UsageError("unexpected argument %q", args[len(wanted)])
}

// arrangeVersion reads "ADDRESS VERSION" as ADDRESS@VERSION, if that is one argument more than
// the command takes, and ADDRESS@VERSION as two arguments of a command that takes more.
func arrangeVersion(cmd *cobra.Command, args []string) []string {
	wanted := argWords(cmd)
	if len(wanted) > len(args) && slices.Contains([]string{"VERSION", "[VERSION]", "NEW"}, wanted[len(wanted)-1]) {
		return splitVersions(wanted, args)
	}
	if len(wanted) == 0 || !strings.HasPrefix(strings.TrimLeft(wanted[0], "["), "ADDRESS") || len(args) <= len(wanted) || strings.Contains(args[0], "@") {
		return args
	}
	if _, err := addr.ParseVersion(args[1]); err != nil {
		return args
	}
	return append([]string{args[0] + "@" + args[1]}, args[2:]...)
}

// splitVersions splits ADDRESS@VERSION; an address is only needed once.
func splitVersions(wanted, args []string) (out []string) {
	for i, arg := range args {
		address, version, _ := strings.Cut(arg, "@")
		_, err := addr.ParseVersion(version)
		switch {
		case err != nil || i == 0 && !strings.HasPrefix(wanted[0], "NAMESPACE"): // a folder
			out = append(out, arg)
		case slices.Contains(out, address):
			out = append(out, version)
		default:
			out = append(out, address, version)
		}
	}
	if len(out) > len(wanted) {
		return args
	}
	return out
}

// unknownHelp returns the error for help about a command that does not exist, for which cobra
// shows that of the parent.
func unknownHelp(root *cobra.Command, args []string) error {
	words, isHelp := args, slices.Contains(args, "--help") || slices.Contains(args, "-h")
	if len(args) > 0 && args[0] == "help" {
		words, isHelp = args[1:], true
	}
	cmd, rest, err := root.Find(words)
	if !isHelp || err != nil || !cmd.HasSubCommands() || len(argWords(cmd)) > 0 || len(rest) == 0 || strings.HasPrefix(rest[0], "-") || rest[0] == "help" {
		return nil
	}
	return unknownCommand(cmd, rest[0])
}

// argWords returns the words for the arguments in the usage of a command, without flags.
func argWords(cmd *cobra.Command) []string {
	if _, after, ok := strings.Cut(cmd.Use, " -- "); ok {
		return strings.Fields(after)
	}
	var words []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(strings.TrimLeft(word, "[("), "-") {
			break
		}
		words = append(words, word)
	}
	return words
}

// registryAlone is the hint for --server with a command that only works on a registry.
const registryAlone = "this command accesses the registry directly: specify the one behind the server with --registry HOST[/PREFIX]; " +
	"list, show, pull, verify, publish, sign, deprecate, yank and audit also work through a server"

// WrongFlag names the flag that the user may have meant.
func WrongFlag(cmd *cobra.Command, err error) error {
	usage := UsageError("%w", err)
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(argWords(cmd)) == 0 && len(words) > 0 { // before the flag
		return unknownCommand(cmd, words[0])
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		values := map[string]string{"bool": "true or false", "int": "a whole number", "int64": "a whole number", "duration": "a duration such as 30m"}
		if want := values[wrong.GetFlag().Value.Type()]; want != "" {
			return UsageError("invalid argument %q for --%s: must be %s", wrong.GetValue(), wrong.GetFlag().Name, want)
		}
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usage
	}
	// cobra only compares the names of commands.
	word := unknown.GetSpecifiedName()
	if word == "server" {
		return WithHint(usage, "%s", registryAlone)
	}
	names := &cobra.Command{SuggestionsMinimumDistance: allowedMistypes(word)}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := names.SuggestionsFor(word); len(near) > 0 {
		return WithHint(usage, "did you mean --%s?", strings.Join(near, " or --"))
	}
	return usage
}

func usageHint(cmd *cobra.Command) string {
	if cmd == nil || !cmd.HasParent() {
		return "`okara --help` lists the commands"
	}
	return fmt.Sprintf("usage: %s; see --help for examples", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
}

// CompleteTimeout is how long a shell waits for completions, so that TAB never blocks long.
const CompleteTimeout = 2 * time.Second

// Parent returns a command that only groups subcommands.
func Parent(use, group, short string) *cobra.Command {
	return WithoutJSON(&cobra.Command{
		Use: use, GroupID: group, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}, "use one of its commands; `okara --help` lists them")
}

// withoutJSON is the annotation of commands without a JSON result.
const withoutJSON = "okara without json"

// WithoutJSON makes a command refuse --json, since its output is not a JSON document; hint
// says what to do instead.
func WithoutJSON(cmd *cobra.Command, hint string) *cobra.Command {
	cmd.Annotations = map[string]string{withoutJSON: hint}
	return cmd
}

// RefuseJSON returns the error for --json with a command that has no JSON result.
func RefuseJSON(cmd *cobra.Command) error {
	hint, without := cmd.Annotations[withoutJSON]
	if f := cmd.Flags().Lookup("json"); !without || f == nil || f.Value.String() != "true" {
		return nil
	}
	return WithHint(UsageError("%s does not support --json: its output is not a JSON document", cmd.CommandPath()), "%s", hint)
}
