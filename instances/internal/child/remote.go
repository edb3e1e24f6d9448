// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/text"
)

// isRemote reports whether this is a run of a workspace.
func (c *child) isRemote() bool { return c.Order.Spec.State == run.StateTFE }

// toolError is a failure of the tool whose output is in the log.
type toolError struct{ text string }

func (e *toolError) Error() string { return e.text }

// runRemoteSteps runs the tool on an uploaded configuration.
func runRemoteSteps(ctx context.Context, c *child) error {
	p, err := prepareRemote(ctx, c)
	if err != nil {
		return err
	}
	defer removeUpload(c)
	hidden := &lastLines{log: io.Discard, keep: 64 << 10}
	code, err := runCommand(ctx, c, p, append([]string{"init", "-input=false", "-no-color"}, remoteValueFlags(c)...), hidden, hidden)
	if err != nil || code != 0 {
		_, _ = c.log.Write(hidden.tail) // the output is only in memory
	}
	switch {
	case err != nil:
		return err
	case code != 0:
		return &toolError{fmt.Sprintf("init failed with exit status %d", code)}
	}
	if err := c.Order.CheckScratch(c.dir); err != nil {
		return err
	}
	if b, err := c.dir.Read(path.Join(sandbox.Tool, p.module, lockFileName), records.MaxLockFile); err == nil {
		fillPackages(ctx, c, b)
	}
	if c.Order.Spec.Ref.Kind == lifecycle.RunPlan {
		return planRemote(ctx, c, p, c.dir.Inside(sandbox.Tool, planFile))
	}
	if err := fetchApprovedPlan(ctx, c); err != nil {
		return err
	}
	if err := c.retryPersistently(ctx, func() error { return checkLock(ctx, c) }); err != nil {
		return err
	}
	if err := c.checkMayContinue(ctx); err != nil {
		return err
	}
	return applyRemote(ctx, c, p, c.dir.Inside(sandbox.Given, planFile))
}

// remoteValueFlags gives the variables of the workspace to a command that evaluates the
// configuration.
func remoteValueFlags(c *child) []string {
	if len(c.input.Variables) == 0 {
		return nil
	}
	return []string{valuesFlag(c)}
}

// planRemote makes a plan without locking the state: a concurrent write makes the plan
// stale.
func planRemote(ctx context.Context, c *child, p prepared, file sandbox.Path) error {
	r := c.Order.Spec.Remote
	args := []string{"plan", "-input=false", "-no-color", "-lock=false", "-detailed-exitcode", "-out=" + string(file)}
	for flag, on := range map[string]bool{"-destroy": r.Destroy, "-refresh-only": r.RefreshOnly, "-refresh=false": r.NoRefresh} {
		if on {
			args = append(args, flag)
		}
	}
	for _, address := range c.input.Targets {
		args = append(args, "-target="+address)
	}
	for _, address := range c.input.Replace {
		args = append(args, "-replace="+address)
	}
	args = append(args, remoteValueFlags(c)...)
	out := &summary{log: c.log}
	code, err := runCommand(ctx, c, p, args, out, c.log)
	switch {
	case err != nil:
		return err
	case code != 0 && code != 2:
		return &toolError{fmt.Sprintf("plan failed with exit status %d", code)}
	}
	b, err := c.dir.Read(path.Join(sandbox.Tool, planFile), records.MaxPlan)
	if err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	c.report.Changes = code == 2
	c.plan = b
	c.report.Plan = digest.FromBytes(b).String()
	c.report.Counts = out.counts
	if r.Save {
		c.planJSON, err = planJSON(ctx, c, p, file)
	}
	return err
}

// planJSON returns the tool's JSON of a plan with the schemas needed to show it. Without
// it, or if it is too large, the plan is applied all the same.
func planJSON(ctx context.Context, c *child, p prepared, file sandbox.Path) ([]byte, error) {
	outputs := [2]*text.Beginning{}
	for i, args := range [][]string{{"show", "-json", string(file)}, {"providers", "schema", "-json"}} {
		outputs[i] = &text.Beginning{Max: records.MaxPlanJSON}
		code, err := runCommand(ctx, c, p, args, outputs[i], io.Discard)
		if values := remoteValueFlags(c); err == nil && code != 0 && len(values) > 0 && i == 1 { // not all tools take them here
			outputs[i] = &text.Beginning{Max: records.MaxPlanJSON}
			code, err = runCommand(ctx, c, p, append(args, values...), outputs[i], io.Discard)
		}
		if code != 0 || err != nil {
			return nil, c.stop.err()
		}
	}
	b, err := planDocument(outputs[0].Bytes(), outputs[1].Bytes())
	if b = []byte(c.masks.maskText(string(b))); err != nil || len(b) > records.MaxPlanJSON || !json.Valid(b) {
		return nil, nil
	}
	return b, nil
}

// planDocument combines a plan and its schemas. Schemas not used by the plan are left
// out, and so are the values of variables, since some are secret.
func planDocument(plan, schemas []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	var used struct {
		Changes []shownResource `json:"resource_changes"`
		Drift   []shownResource `json:"resource_drift"`
	}
	var all schemaDocument
	if err := errors.Join(json.Unmarshal(plan, &members), json.Unmarshal(plan, &used), json.Unmarshal(schemas, &all)); err != nil {
		return nil, err
	}
	delete(members, "variables")
	few := schemaDocument{Format: all.Format, Providers: map[string]providerSchemas{}}
	for _, r := range append(used.Changes, used.Drift...) {
		from := all.Providers[r.Provider]
		to := few.Providers[r.Provider]
		if to.Resources == nil {
			to = providerSchemas{map[string]json.RawMessage{}, map[string]json.RawMessage{}}
			few.Providers[r.Provider] = to
		}
		have := from.Resources
		want := to.Resources
		if r.Mode == "data" {
			have = from.DataSources
			want = to.DataSources
		}
		if have[r.Type] == nil {
			return nil, fmt.Errorf("no schema of %s", r.Type)
		}
		want[r.Type] = have[r.Type]
	}
	return json.Marshal(map[string]any{"plan": members, "schemas": few})
}

// schemaDocument is the part of `providers schema -json` needed to show a plan.
type schemaDocument struct {
	Format    string                     `json:"format_version"`
	Providers map[string]providerSchemas `json:"provider_schemas"`
}

type providerSchemas struct {
	Resources   map[string]json.RawMessage `json:"resource_schemas"`
	DataSources map[string]json.RawMessage `json:"data_source_schemas"`
}

type shownResource struct {
	Mode     string `json:"mode"`
	Type     string `json:"type"`
	Provider string `json:"provider_name"`
}

func applyRemote(ctx context.Context, c *child, p prepared, file sandbox.Path) error {
	code, err := runCommand(ctx, c, p, []string{"apply", "-input=false", "-no-color", string(file)}, c.log, c.log)
	switch {
	case err != nil:
		return err
	case code != 0:
		return &toolError{fmt.Sprintf("apply failed with exit status %d", code)}
	}
	return nil
}

// removeUpload removes the uploaded configuration and what the tool made of it, unless
// there is a state that could not be stored, whose location is logged.
func removeUpload(c *child) {
	if file := sandbox.FindErrored(c.Order.Scratch); file != "" {
		host, _ := os.Hostname() // without it the line still names the file
		c.log.logLine("okara: host %s holds a state that could not be stored in %s\nhint: copy it from there and push it: state push %s", host, file, sandbox.ErroredFile)
		return
	}
	_ = c.dir.Clear() // on error it is removed with the folder of the attempt
}

// prepareRemote fills the work folder with the uploaded configuration.
func prepareRemote(ctx context.Context, c *child) (prepared, error) {
	o := &c.Order
	p := prepared{module: moduleFolder}
	if o.Spec.Remote == nil {
		return p, errors.New("the order does not say which workspace this is")
	}
	if err := makeFolders(c); err != nil {
		return p, err
	}
	if err := readInput(ctx, c); err != nil {
		return p, err
	}
	if err := c.dir.Fill(path.Join(sandbox.Tool, p.module), func(dir string) error { return fillUpload(ctx, c, dir) }); err != nil {
		return p, err
	}
	if err := linkErrored(c, p.module); err != nil {
		return p, fmt.Errorf("preparing the run: %w", err)
	}
	o.Spec.Variables = c.input.Variables
	if err := writeFiles(c); err != nil {
		return p, fmt.Errorf("preparing the run: %w", err)
	}
	var err error
	if p.env, err = toolEnvironment(c); err != nil {
		return p, err
	}
	return p, writeNote(ctx, c, p.module)
}

// fillUpload makes a folder the uploaded root module.
func fillUpload(ctx context.Context, c *child, dir string) error {
	o := &c.Order
	if err := withArchive(ctx, c, func(f *os.File, size int64) error {
		return archive.UnpackUpload(ctx, io.NewSectionReader(f, 0, size), dir, archive.Limits{})
	}); err != nil {
		return fmt.Errorf("the configuration that was uploaded: %w", err)
	}
	if !o.AllowEncryption {
		if err := bridge.CheckUploaded(dir); err != nil {
			return fmt.Errorf("the configuration that was uploaded: %w", err)
		}
	}
	if err := pointCloud(c, dir); err != nil {
		return fmt.Errorf("preparing the run: %w", err)
	}
	if o.Spec.Ref.Kind == lifecycle.RunApply {
		if err := cleanValues(dir); err != nil {
			return fmt.Errorf("preparing the run: %w", err)
		}
	}
	sharePackages(ctx, c, dir)
	return nil
}

// readInput reads the input of this run, which must match the digest in the ledger.
func readInput(ctx context.Context, c *child) error {
	r := c.Order.Spec.Remote
	if r.Input == "" {
		return nil
	}
	var b []byte
	err := c.retryPersistently(ctx, func() (err error) {
		b, err = c.repo.Input(ctx, c.Order.Spec.Ref.ID, r.Input)
		return err
	})
	if err == nil {
		err = json.Unmarshal(b, &c.input)
	}
	if err != nil {
		return fmt.Errorf("reading the variables of the run: %w", err)
	}
	c.log.hide(c.masks, c.input.Masked)
	return nil
}

// overrideFile points the configuration to this server and this workspace, whatever names
// it uses for them: a block cloud in an override file replaces any backend. If there is a
// file of this name with .tofu, OpenTofu reads only that one.
const overrideFile = "okara_override.tf.json"

func pointCloud(c *child, dir string) error {
	for _, name := range []string{overrideFile, strings.TrimSuffix(overrideFile, ".tf.json") + ".tofu.json"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	r := c.Order.Spec.Remote
	type named struct {
		Name string `json:"name"`
	}
	type cloud struct {
		Hostname     string `json:"hostname"`
		Organization string `json:"organization"`
		Workspaces   named  `json:"workspaces"`
	}
	b, err := json.Marshal(map[string]any{"terraform": map[string]any{"cloud": cloud{c.Order.Server.Host, r.Organization, named{r.Workspace}}}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, overrideFile), b, 0o600)
}

// cleanValues removes the variable files that the tool reads automatically: a plan has
// its values, and the tool compares them.
func cleanValues(dir string) error {
	entries, err := fs.ReadDir(os.DirFS(dir), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if values := strings.TrimSuffix(e.Name(), ".json"); values == "terraform.tfvars" || strings.HasSuffix(values, ".auto.tfvars") {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// remoteEnvironment returns the variables by which the tool finds its state.
func remoteEnvironment(c *child) map[string]string {
	r := c.Order.Spec.Remote
	return map[string]string{
		"TF_FORCE_LOCAL_BACKEND": "1", "TF_WORKSPACE": r.Workspace, "TFE_RUN_ID": r.RunID,
	}
}

// summaryRE matches the line in which both tools summarize a plan.
var summaryRE = text.Pattern(`^Plan: (?:\d+ to import, )?(\d+) to add, (\d+) to change, (\d+) to destroy`)

// summary extracts the summary of a plan from the tool's output.
type summary struct {
	log    io.Writer
	line   []byte
	counts *lifecycle.Counts
}

// Write implements [io.Writer].
func (s *summary) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		if room := 256 - len(s.line); room > 0 {
			s.line = append(s.line, part[:min(room, len(part))]...)
		}
		if part[len(part)-1] != '\n' {
			continue
		}
		if m := summaryRE().FindSubmatch(s.line); m != nil {
			s.counts = &lifecycle.Counts{}
			for i, n := range []*int{&s.counts.Add, &s.counts.Change, &s.counts.Remove} {
				*n, _ = strconv.Atoi(string(m[i+1])) // the expression has digits only
			}
		}
		s.line = s.line[:0]
	}
	return s.log.Write(p)
}
