// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// WriteManual writes the manual pages of a command and its subcommands into a folder, as
// files such as okara-publish-module.1. Source names the version; month is shown in the
// heading of the page.
func WriteManual(cmd *cobra.Command, dir, source string, month time.Time) error {
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := WriteManual(c, dir, source, month); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, manualName(cmd)+".1"), []byte(manualPage(cmd, source, month)), 0o644)
}

// BuildTime is the current time, or SOURCE_DATE_EPOCH, so that a release that is built
// twice has the same pages.
func BuildTime(getenv func(string) string) time.Time {
	if seconds, err := strconv.ParseInt(getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		return time.Unix(seconds, 0).UTC()
	}
	return time.Now()
}

func manualName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manualPage is one page, in the macros of man(7). Texts are taken from --help line by line,
// since spaces align their lists and tables.
func manualPage(cmd *cobra.Command, source string, month time.Time) string {
	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	section := func(name, body string) {
		if body != "" {
			b.WriteString(".SH " + name + "\n" + body)
		}
	}
	fmt.Fprintf(&b, ".TH \"OKARA\" \"1\" \"%s\" \"%s\" \"okara\"\n.nh\n", month.Format("Jan 2006"), source)
	section("NAME", roff(manualName(cmd))+` \- `+roff(cmd.Short)+"\n")
	section("SYNOPSIS", `\fB`+roff(cmd.UseLine())+"\\fR\n")
	text := cmd.Long
	text = cmp.Or(text, cmd.Short)
	section("DESCRIPTION", literalText(text))
	section("OPTIONS", manualFlags(cmd.NonInheritedFlags()))
	section("OPTIONS OF ALL COMMANDS", manualFlags(cmd.InheritedFlags()))
	section("EXAMPLE", literalText(cmd.Example))
	section("SEE ALSO", seeAlso(cmd))
	return b.String()
}

func manualFlags(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			value = ` \fI` + roff(value) + `\fR`
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" {
			usage += " (default " + f.DefValue + ")"
		}
		b.WriteString(".TP\n\\fB" + roff(name) + `\fR` + value + "\n" + roff(usage) + "\n")
	})
	return b.String()
}

func seeAlso(cmd *cobra.Command) string {
	var names []string
	if cmd.HasParent() {
		names = append(names, `\fB`+roff(manualName(cmd.Parent()))+`\fR(1)`)
	}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.IsAdditionalHelpTopicCommand() {
			names = append(names, `\fB`+roff(manualName(c))+`\fR(1)`)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ",\n") + "\n"
}

// literalText marks a text whose line breaks are kept.
func literalText(text string) string {
	if text == "" {
		return ""
	}
	return ".nf\n" + roff(strings.Trim(text, "\n")) + "\n.fi\n"
}

// roff escapes a text so that man shows it and interprets nothing in it.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(text)
	text = strings.ReplaceAll(text, "\n.", "\n\\&.")
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
