// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/seed-141914ff/okara/internal/syntax"
)

// commandLine is what okara reads from the arguments of a tool.
type commandLine struct {
	Dir           string   // -chdir, "." without it
	Command       string   // the subcommand, "" without one
	Sub           string   // the command below one of parentCommands, such as "list" of state
	BackendConfig []string // values of -backend-config, if the command is init
	Reconfigure   bool
	NoBackend     bool           // init -backend=false
	Upgrade       bool           // of init, or -update of get
	Part          bool           // of the configuration, or only the state is to follow what there is
	Plan          string         // the saved plan that apply gets
	LockTimeout   *time.Duration // nil: not in the command line
	Variables     []string       // -var=NAME=VALUE and -var-file=FILE
	Rest          []string       // the arguments without -backend-config
}

// parseCommandLine reads the arguments of tofu or terraform.
func parseCommandLine(args []string) commandLine {
	c := commandLine{Dir: "."}
	valued := false // the flag before takes this argument
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(args[i], "-"), "=")
		name = strings.TrimPrefix(name, "-")
		flag := strings.HasPrefix(args[i], "-")
		switch {
		case !flag && c.Command == "":
			c.Command = args[i]
			if i+1 < len(args) && slices.Contains(parentCommands(), c.Command) {
				c.Sub = args[i+1]
			}
		case flag && name == "chdir" && c.Command == "":
			c.Dir = value
		case flag && name == "reconfigure" && c.Command == "init":
			c.Reconfigure = value != "false"
		case flag && (name == "var" || name == "var-file"):
			if !hasValue && i+1 < len(args) {
				value = args[i+1]
			}
			c.Variables = append(c.Variables, "-"+name+"="+value)
		case flag && (name == "upgrade" || name == "update"):
			on, err := strconv.ParseBool(value)
			c.Upgrade = !hasValue || err != nil || on
		case flag && slices.Contains([]string{"target", "target-file", "exclude", "exclude-file", "refresh-only"}, name):
			c.Part = true
		case !flag && c.Command == "apply" && !valued:
			c.Plan = args[i]
		case flag && name == "backend" && c.Command == "init":
			c.NoBackend = value == "false"
		case flag && name == "lock-timeout":
			if !hasValue && i+1 < len(args) {
				value = args[i+1]
			}
			// The tool itself reports an invalid duration.
			if d, err := time.ParseDuration(value); err == nil {
				c.LockTimeout = &d
			}
		case flag && name == "backend-config" && c.Command == "init":
			if !hasValue && i+1 < len(args) {
				i++
				value = args[i]
			}
			c.BackendConfig = append(c.BackendConfig, value)
			continue
		}
		valued = flag && !hasValue && slices.Contains(valueFlags(), name)
		c.Rest = append(c.Rest, args[i])
	}
	return c
}

// valueFlags are those of apply.
func valueFlags() []string {
	return []string{"var", "var-file", "target", "target-file", "exclude", "exclude-file", "replace", "lock-timeout", "parallelism", "state", "state-out", "backup", "json-into"}
}

func parentCommands() []string { return []string{"state", "workspace", "providers", "metadata"} }

// parseBackendConfig reads -backend-config: KEY=VALUE, or a file, seen from dir. The last wins.
func parseBackendConfig(values []string, dir string) ([]Setting, error) {
	var settings []Setting
	for _, v := range values {
		if name, value, ok := strings.Cut(v, "="); ok {
			settings = append(settings, Setting{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value), Source: "-backend-config=" + name})
			continue
		}
		if !filepath.IsAbs(v) {
			v = filepath.Join(dir, v)
		}
		s, err := parseSettingsFile(v)
		if err != nil {
			return nil, fmt.Errorf("-backend-config: %w", err)
		}
		settings = append(settings, s...)
	}
	slices.Reverse(settings)
	return settings, nil
}

func parseSettingsFile(path string) ([]Setting, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, diags := syntax.Parse(src, path)
	if err := diagnosticsError(diags); err != nil {
		return nil, err
	}
	content, diags := file.Body.Content(blockSchema(""))
	if err := oracleArguments(content.Attributes); err != nil {
		return nil, err
	}
	if err := diagnosticsError(diags); err != nil {
		return nil, err
	}
	settings, err := attributeSettings("", content.Attributes)
	for _, b := range content.Blocks {
		if err != nil {
			break
		}
		inner, diags := b.Body.Content(blockSchema(b.Type))
		if err := diagnosticsError(diags); err != nil {
			return nil, err
		}
		var more []Setting
		more, err = attributeSettings(b.Type+".", inner.Attributes)
		settings = append(settings, more...)
	}
	return settings, err
}

func attributeSettings(prefix string, attrs hcl.Attributes) ([]Setting, error) {
	var settings []Setting
	for _, attr := range attrs {
		v, diags := attr.Expr.Value(nil)
		if err := diagnosticsError(diags); err != nil {
			return nil, err
		}
		text, err := settingText(v)
		if err != nil {
			return nil, atPosition(attr.Range, fmt.Errorf("argument %q: %w", attr.Name, err))
		}
		settings = append(settings, Setting{Name: prefix + attr.Name, Value: text, Source: attr.Range.String()})
	}
	slices.SortFunc(settings, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return settings, nil
}

// settingText formats a value as in a flag.
func settingText(v cty.Value) (string, error) {
	if list, err := convert.Convert(v, cty.List(cty.String)); err == nil && !list.IsNull() {
		var parts []string
		for _, e := range list.AsValueSlice() {
			parts = append(parts, e.AsString())
		}
		return strings.Join(parts, ","), nil
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil || s.IsNull() {
		return "", fmt.Errorf("a %s is not a valid value", v.Type().FriendlyName())
	}
	return s.AsString(), nil
}
