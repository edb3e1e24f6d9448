// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/plugincache"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend"
)

// Exit codes for okara's own failures around a program that it runs.
const (
	exitBridge  = 125
	exitNoTool  = 127
	blockSample = `  terraform {
    backend "oci" {
      repository = "registry.example.com/state/shop"
    }
  }`
)

const toolLong = `Run %[1]s in a root module whose state is in an OCI registry:

` + blockSample + `

Everything after "okara %[2]s" is passed to %[1]s unchanged: all its commands, flags and
exit codes work as usual, including workspaces, saved plans, -lock-timeout and
force-unlock. While it runs, okara serves the state on loopback and replaces the block
with an override file; both are removed when it ends.

Each argument of the block can also be set as TF_BACKEND_OCI_<NAME>, and by
-backend-config of init. Global flags of okara go before %[1]s's arguments.

The program is %[1]s on PATH, or %[3]s; it must be 1.10 or newer.
Its own help is printed by "okara %[2]s -help", that of a command by "okara %[2]s plan -help".
With OKARA_PLUGIN_CACHE_DIR, an absolute path, the modules that are initialized share
one copy of each provider there.

Exit codes: those of %[1]s; 125 if okara itself fails; 127 if there is no %[1]s.`

// calledAsTool is the command line of okara for a process that was started as the tool: by
// its name, as through a link tofu to okara, or with arguments that only the tool knows, as
// in `terragrunt --tf-path okara`. The calling program parses the tool's output, so okara
// adds nothing to it.
func calledAsTool(args []string, getenv func(string) string) []string {
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	args = args[1:]
	switch {
	case name == "tofu" || name == "terraform":
	case len(args) > 0 && (strings.HasPrefix(args[0], "-chdir=") || slices.Contains(toolCommands(), args[0])):
		name = "tofu"
		if getenv("OKARA_TOFU") == "" && getenv("OKARA_TERRAFORM") != "" {
			name = "terraform"
		}
	default:
		return args
	}
	return slices.Concat([]string{name, "-q", "--"}, args)
}

func toolCommands() []string {
	return []string{
		"-version", "apply", "console", "destroy", "fmt", "force-unlock", "get", "graph", "import", "init", "metadata", "output", "plan",
		"providers", "refresh", "taint", "test", "untaint", "validate",
	}
}

func newTofu(reg *cli.Registries) *cobra.Command {
	return newTool(reg, "tofu", "OpenTofu", "OKARA_TOFU", `  okara tofu init
  okara tofu plan -out=plan.bin && okara tofu apply plan.bin
  okara tofu -chdir=network workspace new staging
  okara --debug tofu plan`)
}

func newTerraform(reg *cli.Registries) *cobra.Command {
	return newTool(reg, "terraform", "Terraform", "OKARA_TERRAFORM", `  okara terraform init
  okara terraform apply -lock-timeout=5m
  okara terraform init -migrate-state`)
}

func newTool(reg *cli.Registries, name, title, variable, example string) *cobra.Command {
	return cli.WithoutJSON(&cobra.Command{
		Use: name + " [ARGS...]", Short: "Run " + title + " with its state in the registry",
		Long: fmt.Sprintf(toolLong, title, name, variable), Example: example,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := leadingFlags(cmd, args)
			if errors.Is(err, pflag.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return cli.WrongFlag(cmd, err)
			}
			if err := cli.RefuseJSON(cmd); err != nil {
				return err
			}
			return runTool(cmd.Context(), reg, name, variable, args)
		},
	}, "pass -json after the tool's own command, as in `okara "+name+" plan -json`")
}

// leadingFlags parses okara's global flags in front of the arguments of a tool. They have
// two dashes; the global options of the tools have one.
func leadingFlags(cmd *cobra.Command, args []string) (rest []string, err error) {
	flags := cmd.Root().PersistentFlags()
	for len(args) > 0 {
		name, _, hasValue := strings.Cut(strings.TrimPrefix(args[0], "--"), "=")
		f := flags.Lookup(name)
		switch {
		case args[0] == "--":
			return args[1:], nil // all that follows belongs to the tool
		case args[0] == "--help":
			return nil, pflag.ErrHelp
		case args[0] == "-q":
			f = flags.Lookup("quiet")
			hasValue = true
		case f == nil || !strings.HasPrefix(args[0], "--"):
			return args, nil
		}
		n := 1
		if !hasValue && f.NoOptDefVal == "" {
			n = min(2, len(args))
		}
		if err := flags.Parse(args[:n]); err != nil {
			return nil, err
		}
		args = args[n:]
	}
	return args, nil
}

func runTool(ctx context.Context, reg *cli.Registries, name, variable string, args []string) error {
	program := cmp.Or(reg.Getenv(variable), name)
	path, err := bridge.Look(program)
	if err != nil {
		return noProgram(program, variable)
	}
	tool := bridge.Tool{Path: path, Terraform: name == "terraform", CacheDir: cacheDir()}
	res, err := bridge.RunTool(ctx, tool, args, bridgeOptions(reg))
	return reportRun(reg.App, path, res, err)
}

func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return dir
}

func noProgram(program, variable string) error {
	set := variable != "" && program != strings.ToLower(strings.TrimPrefix(variable, "OKARA_"))
	what := program + " not found on PATH"
	if set {
		what = fmt.Sprintf("%s, which %s names, is not a program", program, variable)
	}
	err := &cli.ExitError{Code: exitNoTool, Err: errors.New(what)}
	if set {
		return cli.WithHint(err, "correct %s, or unset it to use the one on PATH", variable)
	}
	if variable == "" {
		return cli.WithHint(err, "install it, or check PATH")
	}
	for _, other := range []string{"tofu", "terraform"} {
		if _, lookErr := bridge.Look(other); lookErr == nil && !strings.Contains(program, other) {
			return cli.WithHint(err, "%s is installed: run `okara %s`; or install %s, or specify it with %s", other, other, program, variable)
		}
	}
	return cli.WithHint(err, "install it, or specify it with %s", variable)
}

func bridgeOptions(reg *cli.Registries) bridge.Options {
	var warn sync.Once
	return bridge.Options{
		Open: func(_ context.Context, b backendblock.Backend) (*statebackend.Store, error) {
			if keys := reg.Getenv("OKARA_STATE_KEYS") + reg.Getenv("OKARA_STATE_IDENTITIES"); keys != "" && len(b.Encryption) == 0 {
				warn.Do(func() {
					reg.Note("warning: okara does not encrypt this state: OKARA_STATE_KEYS has no effect here\nhint: name the keys in an encryption block of the backend block")
				})
			}
			return openBackend(reg, b)
		},
		Getenv: reg.Getenv, Stdin: reg.In, Stdout: reg.Out, Stderr: reg.Err, Logger: reg.Logger(), Unchanged: reg.Quiet,
		Begin: func(s bridge.Start) { noteStart(reg.App, s) },
		Warn:  func(warning string) { reg.Note("okara: %s", warning) },
		Init: func(dir, dataDir string) (func(int), error) {
			c, err := bridge.Read(dir, bridge.ReadOptions{Getenv: reg.Getenv})
			if err == nil && c.Declared { // a key that is missing is named before the tool asks for the state
				if _, err = openBackend(reg, c.Backend.ForWorkspace("default")); errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
			}
			return shareProviders(reg.App, dir, dataDir)
		},
	}
}

// pluginCacheVariable names the folder of provider packages that inits share.
const pluginCacheVariable = "OKARA_PLUGIN_CACHE_DIR"

// shareProviders links an init to the packages in the plugin cache, if one is named, and
// stores in the cache what the init has installed. A cache failure does not fail the init.
func shareProviders(a *cli.App, dir, dataDir string) (done func(code int), err error) {
	folder := a.Getenv(pluginCacheVariable)
	if folder == "" {
		return func(int) {}, nil
	}
	cache, err := plugincache.New(folder)
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: set %s to one, or unset it", err, pluginCacheVariable)
	}
	m := plugincache.Module{Dir: dir, DataDir: dataDir}
	linked, err := cache.Link(m)
	if err != nil {
		a.Note("okara: the plugin cache %s is not used: %v", folder, err)
	}
	return func(code int) {
		if code != 0 {
			if linked > 0 {
				a.Note("hint: %s came from the plugin cache; if refused, remove %s", text.Plural(linked, "provider"), folder)
			}
			return
		}
		if _, err := cache.Keep(m); err != nil {
			a.Note("okara: %v", err)
		}
	}, nil
}

func noteStart(a *cli.App, s bridge.Start) {
	if s.Repository != "" {
		a.Note("okara: state: oci %s, workspace %s", s.Repository, s.Workspace)
	}
	if s.Errored != "" {
		a.Note("okara: %s contains a state that an earlier run could not store\nhint: compare it with `okara state diff %s`; if it is newer, store it with `okara state push %s`, then remove the file", s.Errored, s.Errored, s.Errored)
	}
}

func reportRun(a *cli.App, program string, res bridge.Result, err error) error {
	for _, h := range res.Held {
		fmt.Fprintf(a.Err, "okara: %s ended without releasing the lock of workspace %q in %s\nhint: if nothing of that run is still running: %s\n",
			program, h.Workspace, h.Repository, states.UnlockCommand(h.Repository, h.Workspace, h.Info.ID))
	}
	for _, err := range res.Behind {
		a.Note("okara: %s", states.Remedy(err))
	}
	if res.Code != 0 && len(res.Failures) > 0 {
		last := res.Failures[len(res.Failures)-1]
		a.Explain(last, res.Code)
	}
	if err != nil {
		return &cli.ExitError{Code: exitBridge, Err: err}
	}
	return cli.ChildExit(res.Code)
}

func openBackend(reg *cli.Registries, b backendblock.Backend) (*statebackend.Store, error) {
	o, err := reg.OCIOptions()
	if err != nil {
		return nil, err
	}
	return backendblock.Open(b, backendblock.OpenOptions{
		Client: o, TLS: reg.TransportOptions(), State: statebackend.Options{Tool: reg.UserAgent(), Logger: reg.WarnLogger()},
	})
}
