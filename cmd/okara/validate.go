// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/text"
)

// validateModule runs init and validate of tofu or terraform over a copy of the files that would be published. With
// --force, what they refuse is a warning.
func validateModule(ctx context.Context, a *cli.App, root string, m addr.ModuleVersion, o depot.ModuleOptions) (err error) {
	var tool string
	for _, name := range []string{cmp.Or(a.Getenv("OKARA_TOFU"), "tofu"), cmp.Or(a.Getenv("OKARA_TERRAFORM"), "terraform")} {
		if path, err := exec.LookPath(name); err == nil {
			tool = cmp.Or(tool, path)
		}
	}
	if tool == "" {
		return cli.UsageError("--validate needs tofu or terraform on PATH")
	}
	dir, done, err := files.TempDir("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := copyPublished(ctx, root, dir, m, o); err != nil {
		return err
	}
	found, err := validateFolder(ctx, tool, filepath.Join(dir, filepath.FromSlash(o.Dir)))
	if err == nil || !o.AllowInvalid || !errors.Is(err, description.ErrInvalid) {
		return err
	}
	a.Note("warning: %s refuses it:\n%s", filepath.Base(tool), found)
	return nil
}

func copyPublished(ctx context.Context, root, to string, m addr.ModuleVersion, o depot.ModuleOptions) error {
	tree, err := cli.OpenOwn(ctx, root, &o)
	if err != nil {
		return err
	}
	defer tree.Close()
	o.AllowInvalid = true // the tool says it
	plan, err := depot.PlanModule(ctx, tree.FS(), m, o)
	if err != nil {
		return err
	}
	for _, f := range plan.Tree.Files {
		b, err := fs.ReadFile(tree.FS(), f.Path)
		at := filepath.Join(to, filepath.FromSlash(f.Path))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, b, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

// validateFolder returns what the tool refuses, as text and as an [description.ErrInvalid].
func validateFolder(ctx context.Context, tool, dir string) (string, error) {
	run := func(both bool, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, tool, args...)
		cmd.Dir, cmd.Env = dir, append(slices.DeleteFunc(os.Environ(), func(s string) bool {
			return strings.HasPrefix(s, "TF_CLI_ARGS") || strings.HasPrefix(s, "TF_DATA_DIR=") || strings.HasPrefix(s, "TF_WORKSPACE=")
		}), "TF_IN_AUTOMATION=1")
		if both {
			return cmd.CombinedOutput()
		}
		return cmd.Output()
	}
	var lines []string
	out, err := run(true, "init", "-backend=false", "-input=false", "-no-color")
	if err != nil {
		lines = append(lines, strings.TrimSpace(string(out)))
	}
	if err == nil {
		out, _ = run(false, "validate", "-json")           // its status repeats what the document says
		_, body, _ := strings.Cut("\n"+string(out), "\n{") // after warnings about the CLI configuration
		var doc struct {
			Diagnostics []struct {
				Severity, Summary, Detail string
				Range                     struct {
					Filename string
					Start    struct{ Line, Column int }
				}
			}
		}
		if err := json.Unmarshal([]byte("{"+body), &doc); err != nil {
			return "", fmt.Errorf("%s validate: %s", filepath.Base(tool), text.Excerpt(string(out)))
		}
		for _, d := range doc.Diagnostics {
			if at := d.Range; d.Severity == "error" && d.Summary != "Provider configuration not present" { // its caller has it
				lines = append(lines, fmt.Sprintf("%s:%d:%d: %s: %s", at.Filename, at.Start.Line, at.Start.Column, d.Summary, d.Detail))
			}
		}
	}
	if len(lines) == 0 {
		return "", ctx.Err()
	}
	found := strings.Join(lines, "\n")
	return found, fmt.Errorf("%w for %s:\n%s", description.ErrInvalid, filepath.Base(tool), found)
}
