// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// maxShownDescription bounds the description that show reads, in bytes.
const maxShownDescription = 4 << 20

type shown struct {
	Kind        string            `json:"kind"`
	Address     string            `json:"address"`
	Version     string            `json:"version"`
	Reference   string            `json:"reference"` // repository:tag@digest
	PublishedAt time.Time         `json:"published_at,omitzero"`
	Annotations map[string]string `json:"annotations,omitempty"`
	marks
	Held      string         `json:"held,omitempty"`   // why it is not published
	Policy    string         `json:"policy,omitempty"` // verdict of the policy flags
	Scan      string         `json:"scan,omitempty"`   // summary of the newest reports
	Referrers []referrerLine `json:"referrers,omitempty"`

	ContentDigest string                      `json:"content_digest,omitempty"`
	Size          int64                       `json:"size,omitempty"`
	Description   *artifact.ModuleDescription `json:"description,omitempty"`

	Protocols []string        `json:"protocols,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Keys      []shownKey      `json:"keys,omitempty"`
	Platforms []shownPlatform `json:"platforms,omitempty"`

	title   string // of a module: the address as it was written
	status  evidence.Status
	scanned []oci.Descriptor // platforms, which have reports of their own
}

type referrerLine struct {
	ArtifactType string `json:"artifact_type"`
	Digest       string `json:"digest"`
}

type shownKey struct {
	ID      string `json:"id"`
	Source  string `json:"source,omitempty"`
	Expires string `json:"expires,omitempty"`
}

type shownPlatform struct {
	Platform string `json:"platform"`
	Filename string `json:"filename"`
	Size     int64  `json:"size"`
	Zh       string `json:"zh"`
	H1       string `json:"h1"`
}

func newShow(reg *cli.Registries) *cobra.Command {
	var readme bool
	var policy policyFlags
	var server cli.ServerFlags
	cmd := &cobra.Command{
		Use:   "show ADDRESS[@VERSION]",
		Short: "Show a version of a module or provider",
		Long: `Show a version of a module or provider: where it is, what it contains, who signed it and
whether it is deprecated or withdrawn. Without a version the highest release is shown,
or the highest pre-release if there is no release. With --require, --openpgp-key,
--cosign-key or --block it shows whether a server with this policy serves the version,
or why not.

` + readServerHelp + `

Exit codes: 0 done, 2 usage, 3 version not found, 5 denied.`,
		Example: `  okara show net/vpc/aws
  okara show net/vpc/aws@1.4.0 --readme
  okara show acme/dns@1.2.3 --require openpgp --openpgp-key release.pub.asc
  okara show acme/dns@1.2.3 --json
  okara show net/vpc/aws --server https://okara.example.com`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			require, err := policy.readPolicy()
			if err != nil {
				return err
			}
			t, err := selectRead(cmd.Context(), reg, server, args[0], nil)
			if err != nil {
				return err
			}
			s, err := t.showVersion(cmd.Context())
			if err != nil {
				return err
			}
			if require != nil && s.Held == "" {
				if s.Policy, err = policyVerdict(cmd.Context(), t.depot, t.Item, s.Version, *require); err != nil {
					return err
				}
			}
			if readme {
				return reg.PrintResult(s.readme(), s.readme().Text)
			}
			return reg.PrintResult(s, s.text())
		},
	}
	cmd.Flags().BoolVar(&readme, "readme", false, "print the module's readme only")
	policy.addTo(cmd)
	server.Add(cmd.Flags())
	return cmd
}

func policyVerdict(ctx context.Context, d *depot.Depot, it addr.Item, version string, o trust.Policy) (string, error) {
	v, err := addr.ParseVersion(version)
	if err != nil {
		return "", err
	}
	_, err = d.Verify(ctx, it, v, o)
	if errors.Is(err, trust.ErrUntrusted) {
		return "refused: " + err.Error(), nil
	}
	return "fulfilled", err
}

func (t selected) showVersion(ctx context.Context) (shown, error) {
	l, v, err := itemVersion(ctx, t.catalog, t.Selection)
	for err == nil {
		_, err = t.repo.Resolve(ctx, v.Tag())
		if err == nil {
			return showTag(ctx, l.Listing, t.Selection, v, v.Tag())
		}
		if !errors.Is(err, oci.ErrNotFound) || !t.catalog.MarkDangling(ctx, t.Item, v) {
			break
		}
		l, v, err = itemVersion(ctx, t.catalog, t.Selection)
	}
	if !errors.Is(err, oci.ErrNotFound) {
		return shown{}, err
	}
	if s, herr := showHeld(ctx, t.depot, t.repo, t.Selection); herr == nil {
		return s, nil
	}
	return shown{}, err
}

func showTag(ctx context.Context, l *depot.Listing, it addr.Selection, v addr.Version, tag string) (shown, error) {
	r := l.Repository
	m, err := r.Fetch(ctx, tag)
	if err != nil {
		return shown{}, err
	}
	status := l.StatusOf(v, m.Digest)
	s := shown{
		Kind: it.Kind, Address: it.Item.String(), Version: v.String(), Reference: r.String() + ":" + tag + "@" + m.Digest.String(),
		marks: marksOf(status), status: status,
	}
	if it.Kind == addr.KindModule {
		s.title = it.Module.Title(artifact.AnnotationsOf(m)[artifact.AnnTitle])
		err = s.fillModule(ctx, r, m)
	} else {
		err = s.fillProvider(ctx, r, m)
	}
	if err != nil {
		return shown{}, err
	}
	s.PublishedAt = l.Published(v, s.Annotations)
	if s.Scan, err = scanText(ctx, r, append(s.scanned, m.Descriptor)); err != nil {
		return shown{}, err
	}
	referrers, err := r.Referrers(ctx, m.Descriptor, "")
	if err != nil {
		return shown{}, err
	}
	for _, d := range referrers {
		s.Referrers = append(s.Referrers, referrerLine{d.ArtifactType, d.Digest.String()})
	}
	return s, nil
}

func (s *shown) fillModule(ctx context.Context, r *oci.Repo, m oci.Manifest) error {
	parsed, err := artifact.ParseModule(m)
	if err != nil {
		return err
	}
	s.Annotations = parsed.Annotations
	s.ContentDigest = parsed.ContentDigest
	s.Size = parsed.Zip.Size
	if parsed.Description == nil {
		return nil
	}
	b, err := r.ReadBlob(ctx, *parsed.Description, maxShownDescription)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &s.Description); err != nil {
		return fmt.Errorf("description of %s: %w: %w", r, oci.ErrCorrupt, err)
	}
	if s.Description != nil {
		s.Description.Dir = parsed.Annotations[artifact.AnnModuleDir]
	}
	return nil
}

func (s *shown) fillProvider(ctx context.Context, r *oci.Repo, m oci.Manifest) error {
	index, err := artifact.ParseProviderIndex(m)
	if err != nil {
		return err
	}
	s.Annotations = index.Annotations
	s.Protocols = index.Protocols
	s.Signature = index.Signature
	for _, p := range index.Platforms {
		s.Platforms = append(s.Platforms, shownPlatform{p.Platform.String(), p.Filename, p.Size, p.Zh, p.H1})
		s.scanned = append(s.scanned, p.Manifest)
	}
	md, err := evidence.Resigned(ctx, r, index, s.status)
	if errors.Is(err, oci.ErrNotFound) {
		return nil
	}
	for _, k := range md.Keys {
		s.Keys = append(s.Keys, shownKey{k.KeyID, k.Source, k.Expires})
	}
	return err
}

func (s *shown) readme() artifact.DescribedReadme {
	if s.Description == nil || s.Description.Root.Readme == nil {
		return artifact.DescribedReadme{}
	}
	return *s.Description.Root.Readme
}

func (s *shown) text() string {
	rows := [][]string{{"address", cmp.Or(s.title, s.Address)}, {"version", s.Version}, {"reference", s.Reference}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	if !s.PublishedAt.IsZero() {
		add("published", cli.Timestamp(s.PublishedAt))
	}
	add("on hold", s.Held)
	add("policy", s.Policy)
	add("status", s.status.Text())
	add("scan", s.Scan)
	add("source", s.Annotations[artifact.AnnSource])
	add("revision", s.Annotations[artifact.AnnRevision])
	for line := range strings.Lines(s.Annotations[artifact.AnnChanges]) {
		add("change", strings.TrimSpace(line))
	}
	if dir := s.Annotations[artifact.AnnModuleDir]; dir != "" {
		add("module", "//"+dir)
	}
	add("content", s.ContentDigest)
	add("protocols", strings.Join(s.Protocols, ", "))
	add("signature", s.Signature)
	for _, k := range s.Keys {
		add("key", strings.TrimSpace(k.ID+" "+k.Source+" "+k.Expires))
	}
	for _, p := range s.Platforms {
		add("platform", fmt.Sprintf("%s %d bytes %s zh:%s", p.Platform, p.Size, p.H1, p.Zh))
	}
	if s.Description != nil {
		rows = append(rows, describedRows(s.Description.Root)...)
		for _, m := range s.Description.Submodules {
			add("submodule", m.Path)
		}
		for _, m := range s.Description.Examples {
			add("example", m.Path)
		}
	}
	for _, d := range s.Referrers {
		add("attached", d.ArtifactType+" "+d.Digest)
	}
	return cli.Table(rows)
}

func describedRows(m artifact.DescribedModule) [][]string {
	var rows [][]string
	if len(m.RequiredVersion) > 0 {
		rows = append(rows, []string{"tool", strings.Join(m.RequiredVersion, ", ")})
	}
	for _, tool := range slices.Sorted(maps.Keys(m.CompatibleWith)) {
		rows = append(rows, []string{"tool", tool + " " + m.CompatibleWith[tool]})
	}
	for _, tool := range slices.Sorted(maps.Keys(m.OnlyFor)) {
		rows = append(rows, []string{"tool", "only " + tool + ": " + m.OnlyFor[tool]})
	}
	for _, v := range m.Variables() {
		marks := joinMarks(mark{"required", v.Required}, mark{"sensitive", v.Sensitive}, mark{"ephemeral", v.Ephemeral}, mark{"const", v.Const}, mark{deprecationText(v.Advice), v.Deprecated})
		rows = append(rows, []string{"input", joinFields(v.Name + " " + description.TypeLine(v.Type) + marks + " " + v.Description)})
	}
	for _, o := range m.Outputs {
		marks := joinMarks(mark{"sensitive", o.Sensitive}, mark{"ephemeral", o.Ephemeral}, mark{deprecationText(o.Deprecated), o.Deprecated != ""})
		rows = append(rows, []string{"output", joinFields(o.Name + " " + description.TypeLine(o.Type) + marks + " " + o.Description)})
	}
	for _, p := range m.RequiredProviders {
		rows = append(rows, []string{"provider", strings.TrimSpace(p.Name + " " + p.Source + " " + strings.Join(p.Versions, ", "))})
	}
	if m.Terraform != nil {
		rows = append(rows, []string{"terraform", joinFields("does not read the .tofu files; its inputs: " + strings.Join(m.Terraform.InputOrder, ", "))})
	}
	return rows
}

type mark struct {
	word    string
	applies bool
}

func joinMarks(all ...mark) string {
	var words []string
	for _, m := range all {
		if m.applies {
			words = append(words, m.word)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

func deprecationText(why string) string {
	return strings.TrimSuffix("deprecated: "+why, ": ")
}

func joinFields(s string) string { return strings.Join(strings.Fields(s), " ") }

// showHeld shows a version that a scan or an approval rule holds back: it has only a
// candidate tag. The error wraps oci.ErrNotFound if there is none.
func showHeld(ctx context.Context, d *depot.Depot, r *oci.Repo, it addr.Selection) (shown, error) {
	v, err := addr.ParseVersion(it.Versions)
	if err != nil {
		return shown{}, err
	}
	candidates, err := depot.Candidates(ctx, r)
	if err != nil {
		return shown{}, err
	}
	for _, c := range candidates {
		if c.Version != v {
			continue
		}
		s, err := showTag(ctx, &depot.Listing{Repository: r}, it, v, c.Tag)
		if err != nil {
			return shown{}, err
		}
		s.Held, err = supply.HeldReason(ctx, d, it.Item, v)
		switch {
		case err != nil || s.Held != "":
		case s.Scan != "":
			s.Held = "not published; the newest scan found " + s.Scan
		default:
			s.Held = "not published"
		}
		return s, err
	}
	return shown{}, fmt.Errorf("%s has no version %s: %w", r, v, oci.ErrNotFound)
}

// scanText summarizes the newest scan report of a module, or of the platforms of a provider;
// "" if there is none.
func scanText(ctx context.Context, r *oci.Repo, subjects []oci.Descriptor) (string, error) {
	var worst evidence.ScanSummary
	found := false
	for _, subject := range subjects {
		s, ok, err := evidence.NewestScan(ctx, &evidence.Referrers{Repo: r, Subject: subject})
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		found = true
		worst.Tool = s.Tool
		worst.Time = s.Time
		worst.Critical = max(worst.Critical, s.Critical)
		worst.High = max(worst.High, s.High)
		worst.Medium = max(worst.Medium, s.Medium)
		worst.Low = max(worst.Low, s.Low)
	}
	if !found {
		return "", nil
	}
	return fmt.Sprintf("%d critical, %d high, %d medium, %d low (%s, %s)",
		worst.Critical, worst.High, worst.Medium, worst.Low, worst.Tool, worst.Time.UTC().Format("2006-01-02")), nil
}
