// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/checkout"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/client"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// bumpCommits lets the commit messages determine which part of the version is raised.
const bumpCommits = "commits"

type changedModule struct {
	Address     string                   `json:"address"`
	From        string                   `json:"from,omitempty"`  // the highest release that was not withdrawn; "": none
	To          string                   `json:"to,omitempty"`    // the version to publish; "" if the folder has not changed or is refused
	Error       string                   `json:"error,omitempty"` // why it is refused
	Changes     []string                 `json:"changes,omitempty"`
	Differences []description.Difference `json:"differences,omitempty"`

	folder moduleFolder
	part   string // that is raised; "" for the first release
}

func (c changedModule) countBreaking() int {
	n := 0
	for _, d := range c.Differences {
		if d.Breaking {
			n++
		}
	}
	return n
}

func (c changedModule) isUnchanged() bool { return c.To == "" && c.Error == "" }

// refuse sets why the module cannot be published, if err is not nil.
func (c *changedModule) refuse(err error) {
	if err != nil {
		c.folder.refused = err
		c.Error = err.Error()
		c.To = ""
	}
}

func (c changedModule) isUnannounced() bool {
	return c.To != "" && c.countBreaking() > 0 && c.part != addr.Major && !strings.HasPrefix(c.From, "0.")
}

func (c changedModule) warnUnannounced(a *cli.App) {
	if c.isUnannounced() {
		a.Note("warning: %s %s breaks callers of %s but is not a major version", c.Address, c.To, c.From)
	}
}

type changedModules struct {
	publisher publisher
	options   depot.ModuleOptions
	part      string // major, minor, patch or bumpCommits
	since     string // a git revision; "": the one of the release
}

func publishChanged(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, folders []moduleFolder, f modulesFlags, dryRun bool, o depot.ModuleOptions) error {
	p, done, err := openPublisher(reg, s)
	if err != nil {
		return err
	}
	defer done()
	c := changedModules{publisher: p, options: o, part: f.bump, since: f.since}
	all, err := c.findModules(ctx, folders)
	if err != nil {
		return cli.PublishHint(err)
	}
	var changed []moduleFolder
	for _, m := range all {
		m.warnUnannounced(reg.App)
		if !m.isUnchanged() {
			m.folder.annotations = c.changeAnnotations(m)
			changed = append(changed, m.folder)
		}
	}
	if dryRun {
		_, refused, err := planEach(ctx, p, changed, o)
		if err != nil {
			return err
		}
		for i, m := range all {
			all[i].refuse(refused[m.folder.dir])
		}
		text := changedText(all)
		if f.markdown && !reg.JSON {
			text = strings.TrimSuffix(changedMarkdown(all), "\n")
		}
		return cmp.Or(reg.PrintResult(all, text), refusedError(changed, refused, len(all), f.keepGoing))
	}
	for _, m := range all {
		if m.isUnchanged() {
			reg.Note("%s: unchanged since %s", m.Address, m.From)
		}
	}
	return publishPlanned(ctx, reg.App, p, done, changed, len(all), o, f.keepGoing)
}

// findModules returns all modules, including unchanged and refused ones. It ends at an error that
// is not of one folder: a mistake of the call, or a registry that does not answer.
func (c changedModules) findModules(ctx context.Context, folders []moduleFolder) ([]changedModule, error) {
	all := make([]changedModule, len(folders))
	return all, forEachModule(ctx, folders, func(ctx context.Context, i int, f moduleFolder) error {
		m, err := c.findModule(ctx, f)
		if hasType[*cli.ExitError](err) || isWholeCall(err) {
			return fmt.Errorf("%s: %w", f.dir, err)
		}
		m.refuse(err)
		all[i] = m
		return nil
	})
}

// isWholeCall reports whether an error is of the registry and these credentials, not of one item.
func isWholeCall(err error) bool {
	return errors.Is(err, oci.ErrUnavailable) || errors.Is(err, oci.ErrUnauthenticated)
}

func (c changedModules) findModule(ctx context.Context, f moduleFolder) (changedModule, error) {
	m := changedModule{Address: f.target.Module.String(), folder: f}
	l, err := listModule(ctx, c.publisher, f.target.Module)
	if err != nil {
		return m, err
	}
	released, ok := highestRelease(l)
	part := c.part
	if part == bumpCommits {
		part = addr.Minor // for the first release
	}
	if ok {
		m.From = released.String()
		same, err := c.compareRelease(ctx, &m, addr.ModuleVersion{Module: f.target.Module, Version: released})
		if err != nil || same {
			return m, err
		}
		part = m.part
	}
	next, err := l.Next(part)
	if err == nil {
		m.To = next.String()
		m.folder.target.Version = next
	}
	return m, err
}

func listModule(ctx context.Context, p publisher, m addr.Module) (*depot.Listing, error) {
	l, err := p.Versions(ctx, m.Item())
	if errors.Is(err, oci.ErrNotFound) {
		return &depot.Listing{}, nil
	}
	for err == nil && l.Repository != nil { // a registry has tags of other artifacts, without a time
		v, ok := highestRelease(l)
		if _, timed := l.Times[v.Tag()]; !ok || timed {
			break
		}
		stored, fetchErr := l.Repository.Fetch(ctx, v.Tag())
		if _, other := artifact.ParseModule(stored); fetchErr != nil || other == nil {
			break
		}
		l.Versions = slices.DeleteFunc(slices.Clone(l.Versions), func(o addr.Version) bool { return o == v })
	}
	return l, err
}

func highestRelease(l *depot.Listing) (addr.Version, bool) {
	i := slices.IndexFunc(l.Versions, func(v addr.Version) bool { return !v.Prerelease() && l.Status(v).Yanked == nil })
	if i < 0 {
		return addr.Version{}, false
	}
	return l.Versions[i], true
}

func (c changedModules) compareRelease(ctx context.Context, m *changedModule, released addr.ModuleVersion) (same bool, err error) {
	options := m.folder.folderOptions(c.options)
	tree, err := cli.OpenOwn(ctx, m.folder.root, &options)
	if err != nil {
		return false, err
	}
	defer tree.Close()
	cli.KeepRules(ctx, c.publisher, tree.FS(), released, &options)
	plan, err := depot.PlanModule(ctx, tree.FS(), released, options)
	if err != nil {
		return false, err
	}
	same, err = c.publisher.ModuleThere(ctx, released, plan, options)
	if err != nil && !errors.Is(err, oci.ErrExists) || same {
		return same, err
	}
	stored, err := storedModule(ctx, c.publisher, released)
	if err != nil {
		return false, err
	}
	if stored.Description != nil {
		m.Differences = description.Compare(*stored.Description, plan.Description())
	}
	since := cmp.Or(c.since, stored.Annotations[artifact.AnnRevision])
	return false, c.readCommits(ctx, m, since)
}

// storedModule returns the published version; nothing if a front-end is too old to serve
// reads.
func storedModule(ctx context.Context, p publisher, m addr.ModuleVersion) (s shown, err error) {
	d, direct := p.(*depot.Depot)
	if front, ok := p.(*client.Client); ok {
		r, layout, err := front.Content(ctx, m.Module.Item(), m.Version)
		if errors.Is(err, oci.ErrNotFound) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		d = depot.New(depot.Options{Client: r, Layout: layout, LayoutFromServer: true})
		direct = true
	}
	if !direct {
		return s, nil
	}
	at, err := d.Subject(ctx, m.Module.Item(), m.Version)
	if err == nil {
		err = s.fillModule(ctx, at.Repository, at.Manifest)
	}
	return s, err
}

// readCommits finds the commits since a revision, and which part of the version they raise.
func (c changedModules) readCommits(ctx context.Context, m *changedModule, since string) error {
	m.part = c.part
	if since == "" {
		if c.part == bumpCommits {
			return cli.WithHint(cli.UsageError("%s does not record its commit, so the commits since then are unknown", m.From),
				"specify the commit with --since, or use --bump major, minor or patch")
		}
		return nil
	}
	commits, err := checkout.Commits(ctx, m.folder.root, since)
	if errors.Is(err, checkout.ErrManyCommits) && c.part != bumpCommits {
		err = nil // the list of changes has the newest commits
	}
	if err != nil && c.part != bumpCommits && c.since == "" {
		return nil // the list was not requested, and the folder may lack its history
	}
	if err != nil {
		return commitsHint(err, since)
	}
	if c.part == bumpCommits {
		m.part = checkout.Part(commits)
	}
	for _, one := range commits {
		m.Changes = append(m.Changes, one.Subject)
	}
	return nil
}

func commitsHint(err error, since string) error {
	switch {
	case errors.Is(err, checkout.ErrNoCommit):
		return cli.WithHint(cli.UsageError("%w", err), "fetch the full history (fetch-depth: 0 on GitHub, GIT_DEPTH: 0 on GitLab), or use --bump major, minor or patch")
	case errors.Is(err, checkout.ErrManyCommits):
		return cli.WithHint(cli.UsageError("%w since %s, so not all messages were read", err, text.Excerpt(since)), "use --bump major, minor or patch")
	}
	return err
}

// changeAnnotations returns those of the options with the list of changes, as far as it fits; nil if
// there is none.
func (c changedModules) changeAnnotations(m changedModule) map[string]string {
	var lines strings.Builder
	for _, subject := range m.Changes {
		if lines.Len()+len(subject)+1 > artifact.MaxChanges {
			break
		}
		lines.WriteString(subject + "\n")
	}
	if lines.Len() == 0 {
		return nil
	}
	all := map[string]string{}
	maps.Copy(all, c.options.Annotations)
	all[artifact.AnnChanges] = strings.TrimSuffix(lines.String(), "\n")
	return all
}

func changedText(all []changedModule) string {
	var rows [][]string
	for _, m := range all {
		next := cmp.Or(m.To, "refused")
		if m.isUnchanged() {
			next = "unchanged"
		}
		rows = append(rows, []string{m.Address, cmp.Or(m.From, "-"), next})
	}
	return cli.Table(rows)
}

// maxComment bounds the text of a comment, in bytes: GitHub accepts 65536 characters.
const maxComment = 60_000

// comment is Markdown that is cut off before services would refuse it.
type comment struct {
	text strings.Builder
	left int // lines that did not fit
}

func (c *comment) addLine(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if c.text.Len()+len(line) >= maxComment {
		c.left++
		return
	}
	c.text.WriteString(line + "\n")
}

// changedMarkdown is the text of a comment on a merge request. User-written text in it is
// formatted as code.
func changedMarkdown(all []changedModule) string {
	var c comment
	c.addLine("<!-- okara: modules -->")
	changed := slices.DeleteFunc(slices.Clone(all), changedModule.isUnchanged)
	if len(changed) == 0 {
		c.addLine("No module changes.")
		return c.text.String()
	}
	c.addLine("| module | released | next |\n|---|---|---|")
	for _, m := range changed {
		c.addLine("| %s | %s | **%s** |", m.Address, cmp.Or(m.From, "none"), cmp.Or(m.To, "refused"))
	}
	for _, m := range changed {
		c.addChanges(m)
	}
	if rest := len(all) - len(changed); rest > 0 {
		c.addLine("\nUnchanged: %d.", rest)
	}
	if c.left > 0 {
		fmt.Fprintf(&c.text, "\nLines omitted: %d.\n", c.left)
	}
	return c.text.String()
}

func (c *comment) addChanges(m changedModule) {
	if m.Error != "" {
		c.addLine("\n**%s**: %s", m.Address, markdownCode(m.Error))
		return
	}
	if len(m.Changes)+len(m.Differences) == 0 {
		return
	}
	c.addLine("\n**%s %s**\n", m.Address, m.To)
	if m.isUnannounced() {
		c.addLine("⚠ Breaks callers, but %s is not a major version.\n", m.To)
	}
	for _, d := range m.Differences {
		line := fmt.Sprintf("- %s %s %s", d.Change, d.What, markdownCode(d.Name))
		if d.Effect != description.New {
			line += " (" + d.Effect + " callers)"
		}
		if d.Detail != "" {
			line += ": " + markdownCode(d.Detail)
		}
		c.addLine("%s", line)
	}
	for _, subject := range m.Changes {
		c.addLine("- commit: %s", markdownCode(subject))
	}
}

// markdownCode formats untrusted text as code, where services recognize no markup, links or
// user names: in any other text they find user names, even escaped ones.
func markdownCode(s string) string {
	s = text.Line(s)
	if !strings.Contains(s, "`") {
		return "`" + s + "`"
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + " " + s + " " + fence
}

// bumpFlag selects the version after the highest one.
type bumpFlag struct{ part string }

// bumpArgs requires a folder, an address and a version, or --bump instead of the version.
func bumpArgs(cmd *cobra.Command, args []string) error {
	if !cmd.Flags().Changed("bump") {
		return cobra.ExactArgs(3)(cmd, args)
	}
	if len(args) != 2 {
		return cli.WithHint(cli.UsageError("--bump replaces the VERSION argument: expected 2 arguments, got %d", len(args)),
			"use %s DIR NAMESPACE/NAME/SYSTEM --bump minor", cmd.CommandPath())
	}
	return nil
}

// target is the module version on the command line; with --bump it lacks the version until
// [bumpFlag.setBumpedVersion] sets it.
func (b bumpFlag) target(ctx context.Context, reg *cli.Registries, args []string) (m addr.ModuleVersion, err error) {
	if m.Module, err = addr.ParseModule(args[1]); err != nil {
		return m, cli.UsageError("%w", err)
	}
	if stored := m.Module.String(); stored != args[1] {
		reg.Note("okara: the address is stored in lower case: %s", stored)
	}
	switch {
	case b.part == "":
		m.Version, err = publishVersion(ctx, reg.App, args[2], args[0])
	case b.part == bumpCommits:
		err = cli.WithHint(cli.UsageError("--bump commits is for folders of modules"), "use `okara publish modules ROOT ADDRESS --bump commits`, or --bump major, minor or patch")
	case !slices.Contains([]string{addr.Major, addr.Minor, addr.Patch}, b.part):
		err = cli.UsageError("invalid --bump %s: must be major, minor or patch", b.part)
	}
	return m, err
}

// setBumpedVersion sets the version that --bump selects: the highest release if it has the content of the
// folder, else the one after it. Without the flag it makes no request.
func (b bumpFlag) setBumpedVersion(ctx context.Context, a *cli.App, p publisher, root string, m *addr.ModuleVersion, o depot.ModuleOptions) error {
	if b.part == "" {
		return nil
	}
	c := changedModules{publisher: p, options: o, part: b.part}
	found, err := c.findModule(ctx, moduleFolder{dir: root, title: m.Module.String(), root: root, below: o.Dir, target: *m})
	if err != nil {
		return err
	}
	found.warnUnannounced(a)
	m.Version, err = addr.ParseVersion(cmp.Or(found.To, found.From))
	return err
}

func (b bumpFlag) printPlan(ctx context.Context, reg *cli.Registries, s cli.ServerFlags, root string, m addr.ModuleVersion, o depot.ModuleOptions) error {
	if b.part != "" {
		p, done, err := openPublisher(reg, s)
		if err != nil {
			return err
		}
		err = b.setBumpedVersion(ctx, reg.App, p, root, &m, o)
		done()
		if err != nil {
			return cli.PublishHint(err)
		}
	}
	return planModule(ctx, reg, s, root, m, o)
}

// autoVersion on the command line means the version in the git tag.
const autoVersion = "auto"

func gitVersions(ctx context.Context, a *cli.App, dir string) (checkout.Tags, error) {
	tags, err := checkout.Versions(ctx, dir, a.Getenv)
	switch _, none := errors.AsType[*checkout.NoVersionError](err); {
	case none:
		err = cli.WithHint(cli.UsageError("%w", err), "tag the commit, for example v1.2.3 or modules/vpc/v1.2.3, or specify the version")
	case err != nil:
		err = cli.WithHint(cli.UsageError("%w", err), "run this in a git checkout with a version tag, or specify the version")
	}
	return tags, err
}

func publishVersion(ctx context.Context, a *cli.App, s, dir string) (addr.Version, error) {
	if s != autoVersion {
		v, err := addr.ParseVersion(s)
		if err != nil {
			return addr.Version{}, cli.UsageError("%w", err)
		}
		return v, nil
	}
	tags, err := gitVersions(ctx, a, dir)
	if err != nil {
		return addr.Version{}, err
	}
	v, ok := tags.For(dir)
	if !ok {
		return addr.Version{}, cli.UsageError("no git tag at HEAD matches directory %s", dir)
	}
	return v, nil
}
