// SPDX-License-Identifier: Apache-2.0

package child

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	digest "github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/instances/internal/plantext"
	"github.com/seed-141914ff/okara/instances/internal/prices"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
)

func runSteps(ctx context.Context, c *child, p prepared) error {
	spec := c.Order.Spec
	if err := initLocked(ctx, c, p, func() error { return initTool(ctx, c, p) }); err != nil {
		return err
	}
	plan := c.dir.Inside(sandbox.Tool, planFile)
	switch {
	case spec.Ref.Kind == lifecycle.RunDrift:
		return findDrift(ctx, c, p)
	case spec.Plan != "" || c.isRemote() && spec.Ref.Kind != lifecycle.RunPlan:
		if err := fetchApprovedPlan(ctx, c); err != nil {
			return err
		}
		plan = c.dir.Inside(sandbox.Given, planFile)
	case c.isRemote():
		if record := c.recorder(p.module); record != nil {
			c.report.Uses = record(nil, nil)
		}
		return planRemote(ctx, c, p, plan)
	default:
		if err := makePlan(ctx, c, p, plan); err != nil {
			return err
		}
		if spec.Approve || spec.Ref.Kind == lifecycle.RunPlan {
			return keepPlan(ctx, c, p, plan)
		}
	}
	if err := c.Order.CheckScratch(c.dir); err != nil {
		return err
	}
	if err := c.retryPersistently(ctx, func() error { return checkLock(ctx, c) }); err != nil {
		return err
	}
	if err := c.checkMayContinue(ctx); err != nil {
		return err
	}
	c.report.Untouched = false
	return applyPlan(ctx, c, p, plan)
}

// checkLock checks the lock, and notes whether its tag list has a result of the attempt.
func checkLock(ctx context.Context, c *child) error {
	list, err := c.lock.List(ctx)
	if err == nil {
		c.unlisted = !list.Has(records.RunTag(c.Order.Spec.Ref))
	}
	return err
}

// valuesFlag gives the variables to a command that evaluates the configuration, sources included.
func valuesFlag(c *child) string {
	return "-var-file=" + string(c.dir.Inside(sandbox.Given, variablesFile))
}

// lockDiffers is in the tools' message that the configuration needs other providers than the
// dependency lock file has, which a changed value of a module's source leads to.
const lockDiffers = "Provider dependency changes detected"

// initTool fetches modules and providers, and keeps the lock file that it makes.
func initTool(ctx context.Context, c *child, p prepared) error {
	if c.isRemote() {
		return initUpload(ctx, c, p)
	}
	args := []string{"init", "-input=false", "-no-color", valuesFlag(c)}
	locked := p.locked
	if locked {
		args = append(args, "-lockfile=readonly")
	}
	out := &lastLines{log: bridge.NameOCI{Writer: c.log}}
	code, err := runCommand(ctx, c, p, args, out, out)
	if err == nil && code != 0 && locked && c.Order.Spec.Plan == "" && strings.Contains(out.printedError(), lockDiffers) {
		locked = false
		out = &lastLines{log: bridge.NameOCI{Writer: c.log}}
		code, err = runCommand(ctx, c, p, args[:len(args)-1], out, out)
	}
	if err != nil {
		return err
	}
	if code != 0 {
		c.stays = run.Permanent(out.printedError())
		return fmt.Errorf("init: %s", out.printedError())
	}
	if err := c.Order.CheckScratch(c.dir); err != nil {
		return err
	}
	if locked {
		c.report.Lock = c.Order.Spec.Source.Lock
		return nil
	}
	b, err := c.dir.Read(path.Join(sandbox.Tool, p.module, lockFileName), records.MaxLockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no providers
	}
	if err != nil {
		return fmt.Errorf("dependency lock file: %w", err)
	}
	c.lockFile = b
	c.report.Lock = digest.FromBytes(b).String()
	fillPackages(ctx, c, b)
	return nil
}

func makePlan(ctx context.Context, c *child, p prepared, file sandbox.Path) error {
	args := []string{"plan", "-json", "-input=false", "-out=" + string(file), valuesFlag(c)}
	if c.Order.Spec.Ref.Kind == lifecycle.RunDestroy {
		args = append(args, "-destroy")
	}
	_, err := runJSON(ctx, c, p, args, 0)
	return err
}

// findDrift looks for changes made outside; the tool's exit status is 2 if there are any.
func findDrift(ctx context.Context, c *child, p prepared) error {
	args := []string{"plan", "-json", "-input=false", "-refresh-only", "-detailed-exitcode", valuesFlag(c)}
	e, err := runJSON(ctx, c, p, args, 0, 2)
	if err != nil {
		return err
	}
	c.report.Counts = &e.drift
	if e.code == 2 && e.drift == (lifecycle.Counts{}) && e.outputs != outputsSame { // terraform returns 2 even then
		c.report.Counts = &lifecycle.Counts{Change: 1}
	}
	return nil
}

// onPlan returns the arguments of a command that reads a saved plan.
func (p *prepared) onPlan(file sandbox.Path, args ...string) []string {
	values := p.values
	if args[0] == "apply" {
		values = p.given
	}
	return append(append(args, values...), string(file))
}

func readPlan(c *child) ([]byte, error) {
	b, err := c.dir.Read(path.Join(sandbox.Tool, planFile), records.MaxPlan)
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	return b, nil
}

func keepPlan(ctx context.Context, c *child, p prepared, file sandbox.Path) error {
	b, err := readPlan(c)
	if err != nil {
		return err
	}
	shown := &text.Beginning{Max: plantext.Max}
	errs := &lastLines{log: c.log}
	code, err := runCommand(ctx, c, p, p.onPlan(file, "show", "-no-color"), shown, errs)
	if err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("showing the plan: %s", errs.printedError())
	}
	c.plan = b
	c.report.Plan = digest.FromBytes(b).String()
	c.report.PlanSize = shown.Size
	if !shown.IsCut() { // part of a plan cannot be reviewed
		c.report.PlanText = c.masks.maskText(string(shown.Bytes()))
	}
	if c.Order.Prices == nil {
		return nil
	}
	return estimateCost(ctx, c, p, file)
}

// estimateCost computes the cost from the tool's streamed plan. A failure does not affect the plan.
func estimateCost(ctx context.Context, c *child, p prepared, file sandbox.Path) error {
	from, to := io.Pipe()
	var cost *prices.Cost
	var wrong error
	read := make(chan struct{})
	go func() {
		defer close(read)
		cost, wrong = c.Order.Prices.Of(from)
		_, _ = io.Copy(io.Discard, from) // or the tool would block without a reader
	}()
	errs := &lastLines{log: c.log}
	code, err := runCommand(ctx, c, p, p.onPlan(file, "show", "-json"), to, errs)
	_ = to.Close()
	<-read
	if err == nil && code != 0 {
		err = errors.New(errs.printedError())
	}
	if err = cmp.Or(err, wrong); err != nil {
		c.log.logLine("okara: the cost of the plan is unknown: %s", err)
		return c.stop.err()
	}
	c.report.Cost = cost
	return nil
}

func fetchApprovedPlan(ctx context.Context, c *child) error {
	spec := c.Order.Spec
	b, err := retryValue(ctx, c, func() ([]byte, error) { return c.repo.PlanAt(ctx, spec.PlanTag) })
	if errors.Is(err, oci.ErrNotFound) {
		return &stopError{lifecycle.Stale, "the approved plan no longer exists"}
	}
	if err != nil {
		return fmt.Errorf("reading the approved plan: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(digest.FromBytes(b)), []byte(spec.Plan)) != 1 {
		return fmt.Errorf("the plan under %s is not the one that was approved: %w", spec.PlanTag, oci.ErrCorrupt)
	}
	return c.dir.Give(planFile, b)
}

func applyPlan(ctx context.Context, c *child, p prepared, file sandbox.Path) error {
	if c.isRemote() {
		_, err := runShown(ctx, c, p, c.log, c.log, p.onPlan(file, "apply", "-input=false", "-no-color"), 0)
		return err
	}
	e, err := runJSON(ctx, c, p, p.onPlan(file, "apply", "-json", "-input=false"), 0)
	if err != nil && e != nil && e.isStalePlan() {
		return &stopError{lifecycle.Stale, "the state changed since the plan was made"}
	}
	return err
}

// ended is the output of a command with -json.
type ended struct {
	events
	code int
}

// runJSON runs a command whose output is events. An exit status not in codes is an
// error with the tool's messages.
func runJSON(ctx context.Context, c *child, p prepared, args []string, codes ...int) (*ended, error) {
	e := &ended{events: events{log: c.log}}
	errs := &lastLines{log: c.log}
	code, err := runCommand(ctx, c, p, args, e, errs)
	e.end()
	e.code = code
	if e.counts != nil {
		if was := c.report.Counts; was != nil { // of the plan that is applied
			e.counts.Replace = min(max(e.counts.Replace, was.Replace), e.counts.Remove)
			e.counts.Forget = max(e.counts.Forget, was.Forget)
		}
		c.report.Counts = e.counts
		for i := range e.notes {
			e.notes[i].Text = c.masks.maskText(e.notes[i].Text)
		}
		c.report.Notes = lifecycle.JoinNotes(c.report.Notes, e.notes)
	}
	if len(e.left) > 0 && c.Order.Spec.Ref.Kind == lifecycle.RunDestroy {
		c.report.Left = e.left
	}
	switch {
	case err != nil:
		return e, err
	case slices.Contains(codes, code) || e.isDestroyed():
		return e, nil
	case len(e.errs) == 0:
		return e, fmt.Errorf("%s: exit status %d: %s", args[0], code, errs.printedError())
	}
	var list []error
	for _, text := range e.errs {
		list = append(list, errors.New(text))
		c.stays = c.stays || run.Permanent(text)
	}
	return e, errors.Join(list...)
}

// runCommand runs the tool once. When the run should end, it is interrupted, then killed.
func runCommand(ctx context.Context, c *child, p prepared, args []string, out, errs io.Writer) (code int, err error) {
	if err := c.stop.err(); err != nil {
		return 0, err
	}
	t, err := c.start(sandbox.Command{Args: args, Dir: path.Join(sandbox.Tool, p.module), Env: p.env, Stdout: out, Stderr: errs, Alone: true})
	if err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- t.Wait() }()
	select {
	case err = <-ended:
	case <-c.stop.asked.Done():
		c.log.logLine("okara: the tool is interrupted: %s", c.stop.err())
		_ = t.Interrupt() // if that fails, it is killed
		grace := time.NewTimer(c.pace.grace)
		defer grace.Stop()
		select {
		case err = <-ended:
		case <-grace.C:
			err = endTool(c, t, ended)
		case <-c.stop.killed.Done():
			err = endTool(c, t, ended)
		}
	}
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0, nil
	case !failed:
		return 0, fmt.Errorf("%s: %w", args[0], err)
	case c.stop.err() != nil:
		return exit.ExitCode(), c.stop.err()
	case exit.ExitCode() < 0:
		return exit.ExitCode(), fmt.Errorf("%s: the tool was killed (%s), perhaps out of memory", args[0], exit)
	}
	return exit.ExitCode(), nil
}

func endTool(c *child, t startedTool, ended <-chan error) error {
	c.log.logLine("okara: the tool did not stop in time; killing it")
	if err := t.Kill(); err != nil {
		c.log.logLine("okara: %v", err)
	}
	return <-ended
}

// collectResult reads resources and outputs of the last state.
func collectResult(ctx context.Context, c *child) {
	last, err := retryValue(ctx, c, func() (written, error) { return c.lastState(ctx) })
	c.report.Head = last.n
	if errors.Is(err, oci.ErrNotFound) {
		if !c.Order.Spec.Stored { // else it was lost, with what it knew
			c.report.Resources = 0
		}
		return
	}
	var s struct {
		Outputs map[string]struct {
			Value     json.RawMessage `json:"value"`
			Sensitive bool            `json:"sensitive"`
		} `json:"outputs"`
		Resources []struct {
			Mode      string            `json:"mode"`
			Instances []json.RawMessage `json:"instances"`
		} `json:"resources"`
	}
	if err != nil || json.Unmarshal(last.state, &s) != nil {
		return
	}
	c.report.Resources = 0
	for _, r := range s.Resources {
		if r.Mode != "data" {
			c.report.Resources += len(r.Instances)
		}
	}
	for _, name := range c.Order.Spec.Outputs {
		o, ok := s.Outputs[name]
		if !ok {
			o.Value = json.RawMessage("null") // the tools do not store it
		}
		if o.Sensitive || len(o.Value) > maxOutput {
			continue
		}
		value := json.RawMessage(c.masks.maskText(string(o.Value)))
		if !json.Valid(value) {
			continue
		}
		if c.report.Outputs == nil {
			c.report.Outputs = map[string]json.RawMessage{}
		}
		c.report.Outputs[name] = value
	}
}

// maxOutput bounds one output, in bytes of JSON.
const maxOutput = 4 << 10
