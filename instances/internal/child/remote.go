// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/lockfile"
	"github.com/seed-141914ff/okara/internal/text"
)

func (c *child) isRemote() bool { return c.Order.Spec.State == run.StateTFE }

// toolError is a failure of the tool whose output is in the log.
type toolError struct{ text string }

func (e *toolError) Error() string { return e.text }

// runShown runs a command of a workspace's run, whose output is for its reader, and returns
// its exit status: one of codes.
func runShown(ctx context.Context, c *child, p prepared, out, errs io.Writer, args []string, codes ...int) (int, error) {
	code, err := runCommand(ctx, c, p, args, out, errs)
	if err == nil && !slices.Contains(codes, code) {
		err = &toolError{fmt.Sprintf("%s failed with exit status %d", args[0], code)}
	}
	return code, err
}

// initUpload fetches modules and the providers that the configuration requires or its lock file
// names. Whoever may write the state alone must not choose programs that the run executes, so
// a state that needs other providers is refused. The output is shown only if it fails.
func initUpload(ctx context.Context, c *child, p prepared) error {
	lock := path.Join(sandbox.Tool, p.module, lockFileName)
	given, _ := c.dir.Read(lock, records.MaxLockFile) // one that cannot be read fails in the tool
	hidden := &lastLines{log: io.Discard, keep: 64 << 10}
	initWith := func(flag string) error {
		_, err := runShown(ctx, c, p, hidden, hidden, append([]string{"init", "-input=false", "-no-color", flag}, remoteValueFlags(c)...), 0)
		return err
	}
	err := initWith("-backend=false") // without the state
	if err == nil {
		err = keepLocked(c, lock, given)
	}
	if err == nil {
		hidden.tail = nil
		err = initWith("-lockfile=readonly")
	}
	if err != nil {
		_, _ = c.log.Write(hidden.tail) // the output is only in memory
		if strings.Contains(string(hidden.tail), lockDiffers) {
			err = &toolError{"the state needs a provider that the configuration does not require"}
			c.log.logLine("okara: %v\nhint: keep it in required_providers until its last resource is gone", err)
		}
		return err
	}
	if b, err := c.dir.Read(lock, records.MaxLockFile); err == nil {
		fillPackages(ctx, c, b)
	}
	return c.Order.CheckScratch(c.dir)
}

// keepLocked puts back the entries of the uploaded lock file that only the state needs.
func keepLocked(c *child, name string, given []byte) error {
	now, err := c.dir.Read(name, records.MaxLockFile)
	if len(given) == 0 || err != nil {
		return nil // no providers, or nothing that was removed
	}
	before, err := lockfile.Parse(lockFileName, given)
	if err != nil {
		return err
	}
	file, err := lockfile.Parse(lockFileName, now)
	if err != nil {
		return err
	}
	removed := slices.DeleteFunc(before.Providers, func(p lockfile.Provider) bool {
		_, ok := file.Find(p.Address)
		return ok
	})
	if len(removed) == 0 {
		return nil
	}
	return c.dir.Put(name, file.With(removed))
}

// remoteValueFlags gives the variables to a command that evaluates the configuration; a workspace may have none.
func remoteValueFlags(c *child) []string {
	if c.isRemote() && len(c.input.Variables) == 0 {
		return nil
	}
	return []string{valuesFlag(c)}
}

// planRemote plans without locking the state: a concurrent write makes the plan stale.
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
	code, err := runShown(ctx, c, p, out, c.log, args, 0, 2)
	if err != nil {
		return err
	}
	b, err := readPlan(c)
	if err != nil {
		return err
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
	for i, args := range [][]string{p.onPlan(file, "show", "-json"), {"providers", "schema", "-json"}} {
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

// planDocument combines a plan with the schemas that it uses, without the values of variables.
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

// removeUpload removes the configuration, unless there is a state that could not be stored.
func removeUpload(c *child) {
	if file := sandbox.FindErrored(c.Order.Scratch); file != "" {
		host, _ := os.Hostname() // without it the line still names the file
		c.log.logLine("okara: host %s has a state that could not be stored in %s\nhint: copy it from there and push it: okara state push %s", host, file, sandbox.ErroredFile)
		return
	}
	_ = c.dir.Clear() // on error it is removed with the folder of the attempt
}

// fillUpload makes a folder the uploaded root module.
func fillUpload(ctx context.Context, c *child, dir string) error {
	o := &c.Order
	err := withArchive(ctx, c, func(f *os.File, size int64) error {
		return archive.UnpackUpload(ctx, io.NewSectionReader(f, 0, size), dir, archive.Limits{})
	})
	if err == nil {
		err = bridge.CheckUploaded(dir, overrideFile, o.AllowEncryption)
	}
	if err != nil {
		return fmt.Errorf("uploaded configuration: %w", err)
	}
	err = pointCloud(c, dir)
	if err == nil && o.Spec.Ref.Kind == lifecycle.RunApply { // the plan has the values, and the tool compares them
		err = cleanModule(dir, false)
	}
	if err != nil {
		return fmt.Errorf("preparing the run: %w", err)
	}
	sharePackages(ctx, c, dir)
	return nil
}

// readInput reads the input of a workspace's run, which must match the digest in the ledger.
func readInput(ctx context.Context, c *child) error {
	r := c.Order.Spec.Remote
	switch {
	case !c.isRemote():
		return nil
	case r == nil:
		return errors.New("the run description does not name the workspace")
	case r.Input == "":
		c.Order.Spec.Variables = nil
		return nil
	}
	b, err := retryValue(ctx, c, func() ([]byte, error) { return c.repo.Input(ctx, c.Order.Spec.Ref.ID, r.Input) })
	if err == nil {
		err = json.Unmarshal(b, &c.input)
	}
	if err != nil {
		return fmt.Errorf("reading the variables of the run: %w", err)
	}
	c.log.hide(c.masks, c.input.Masked)
	c.Order.Spec.Variables = c.input.Variables
	return nil
}

// overrideFile points the configuration to this workspace: a block cloud in an override file
// replaces any backend. OpenTofu reads only a .tofu file of the same name, if there is one.
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

// remoteEnvironment returns the variables by which the tool finds its state.
func remoteEnvironment(c *child) map[string]string {
	r := c.Order.Spec.Remote
	return map[string]string{
		"TF_FORCE_LOCAL_BACKEND": "1", "TF_WORKSPACE": r.Workspace, "TFE_RUN_ID": r.RunID,
	}
}

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
		s.counts = cmp.Or(plantext.ReadCounts(s.line), s.counts)
		s.line = s.line[:0]
	}
	return s.log.Write(p)
}
