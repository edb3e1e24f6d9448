// SPDX-License-Identifier: Apache-2.0

package format_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func workspaceRecord() format.WorkspaceRecord {
	at := time.Date(2026, 11, 22, 10, 0, 0, 123, time.UTC)
	return format.WorkspaceRecord{
		Workspace: "prod", Seq: 7, Project: "network", Tags: map[string]string{"team": "core <a&b>", "live": ""}, Description: "the one",
		Mode: "remote", Tool: "tofu", State: format.StateSplit, By: "alice", Owner: "run:lab.default/prod", Created: at, Updated: at.Add(time.Hour),
	}
}

// TestWorkspaceRecord fixes the stored form: a change needs a reader for the old form.
func TestWorkspaceRecord(t *testing.T) {
	want := workspaceRecord()
	tag, m := must.GetBoth(format.NewWorkspaceRecord(want))(t)
	image := must.Get(m.Image())(t)
	ann := maps.Clone(image.Annotations)
	delete(ann, "vnd.okara.workspace.nonce")
	if diff := cmp.Diff(map[string]string{
		"org.opentofu.workspace":           "prod",
		"org.opencontainers.image.created": "2026-11-22T11:00:00.000000123Z", "vnd.okara.workspace.created": "2026-11-22T10:00:00.000000123Z",
		"vnd.okara.workspace.seq": "7", "vnd.okara.workspace.project": "network", "vnd.okara.workspace.description": "the one",
		"vnd.okara.workspace.tags": `{"live":"","team":"core \u003ca\u0026b\u003e"}`,
		"vnd.okara.workspace.mode": "remote", "vnd.okara.workspace.tool": "tofu", "vnd.okara.workspace.state": "split",
		"vnd.okara.workspace.by": "alice", "vnd.okara.workspace.owner": "run:lab.default/prod",
	}, ann); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if image.ArtifactType != "application/vnd.okara.workspace.v1" || len(image.Layers) != 1 || image.Layers[0].Size != 2 {
		t.Errorf("type %q, layers %v", image.ArtifactType, image.Layers)
	}
	if s := tag.String(); s != "workspace-prod-000007-"+m.Digest.Encoded()[:8] {
		t.Errorf("tag %s of %s", s, m.Digest)
	}
	got := must.Get(format.ParseWorkspaceRecord(tag.String(), m))(t)
	want.Tag, want.Nonce = tag.String(), got.Nonce
	must.Match(t, "read back", got, want)
	_, other, err := format.NewWorkspaceRecord(workspaceRecord())
	if err != nil || other.Digest == m.Digest {
		t.Errorf("two records have one digest, %v", err)
	}
}

func TestParseWorkspaceTag(t *testing.T) {
	long := strings.Repeat("w", 80)
	for _, want := range []format.WorkspaceTag{
		{Fragment: "prod", Seq: 1, Hex: "01234567"},
		{Fragment: "a-000001-abcdef01", Seq: 999_999, Hex: "abcdef01"},
		{Fragment: format.StateFragment("my team/ä"), Seq: 2, Hex: "ffffffff"},
		{Fragment: long, Seq: 3, Hex: "00000000"},
	} {
		got, ok := format.ParseWorkspaceTag(want.String())
		if !ok || got != want || len(want.String()) > 106 {
			t.Errorf("%s: %+v, %t", want, got, ok)
		}
		if _, state := format.ParseStateTag(want.String()); state {
			t.Errorf("%s is a tag of a state, too", want)
		}
	}
	for _, tag := range []string{
		"", "workspace-", "workspace--000001-01234567", "workspace-prod-000000-01234567", "workspace-prod-00001-01234567", "workspace-prod-0000001-0123456",
		"workspace-prod-000001-0123456g", "workspace-prod-000001-ABCDEF01", "workspace-prod-+00001-01234567", "Workspace-prod-000001-01234567",
		"workspace-" + long + "w-000001-01234567", "state-prod", "okara-doctor", "workspace-pr/od-000001-01234567",
	} {
		if got, ok := format.ParseWorkspaceTag(tag); ok {
			t.Errorf("%q is read as %+v", tag, got)
		}
	}
}

// TestWorkspaceRecordBounds refuses to store or read a record that is out of bounds.
func TestWorkspaceRecordBounds(t *testing.T) {
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint(i)] = ""
	}
	large := map[string]string{}
	for i := range 60 {
		large[fmt.Sprint(i)] = strings.Repeat("x", 256)
	}
	large["last"] = strings.Repeat("ä", 256)
	for name, change := range map[string]func(*format.WorkspaceRecord){
		"no name":                    func(r *format.WorkspaceRecord) { r.Workspace = "" },
		"long name":                  func(r *format.WorkspaceRecord) { r.Workspace = strings.Repeat("w", 256) },
		"control character in name":  func(r *format.WorkspaceRecord) { r.Workspace = "a\nb" },
		"name that is no UTF-8":      func(r *format.WorkspaceRecord) { r.Workspace = "a\xff" },
		"unknown mode":               func(r *format.WorkspaceRecord) { r.Mode = "agent" },
		"place of the state":         func(r *format.WorkspaceRecord) { r.State = "other/repository" },
		"long description":           func(r *format.WorkspaceRecord) { r.Description = strings.Repeat("d", 1025) },
		"control character":          func(r *format.WorkspaceRecord) { r.Description = "\x1b[31m" },
		"text that changes its side": func(r *format.WorkspaceRecord) { r.By = "\u202ealice" },
		"65 tags":                    func(r *format.WorkspaceRecord) { r.Tags = many },
		"tag without a key":          func(r *format.WorkspaceRecord) { r.Tags = map[string]string{"": "x"} },
		"long key":                   func(r *format.WorkspaceRecord) { r.Tags = map[string]string{strings.Repeat("k", 129): ""} },
		"long value":                 func(r *format.WorkspaceRecord) { r.Tags = map[string]string{"k": strings.Repeat("v", 257)} },
		"more than 16 KiB":           func(r *format.WorkspaceRecord) { r.Tags = large },
		"long project":               func(r *format.WorkspaceRecord) { r.Project = strings.Repeat("p", 129) },
		"long owner":                 func(r *format.WorkspaceRecord) { r.Owner = strings.Repeat("o", 513) },
		"no number":                  func(r *format.WorkspaceRecord) { r.Seq = 0 },
		"number of seven digits":     func(r *format.WorkspaceRecord) { r.Seq = 1_000_000 },
		"no time":                    func(r *format.WorkspaceRecord) { r.Updated = time.Time{} },
	} {
		r := workspaceRecord()
		change(&r)
		if tag, _, err := format.NewWorkspaceRecord(r); err == nil {
			t.Errorf("%s: stored as %s", name, tag)
		}
	}
	longest := workspaceRecord()
	longest.Tags = map[string]string{strings.Repeat("ä", 128): strings.Repeat("ö", 256)}
	longest.Description = strings.Repeat("d", 1024)
	if _, _, err := format.NewWorkspaceRecord(longest); err != nil {
		t.Errorf("within the bounds: %v", err)
	}
}

// forge makes a record with changed annotations, and a tag that matches it.
func forge(t *testing.T, change func(*ocispec.Manifest)) (string, oci.Manifest) {
	t.Helper()
	tag, m := must.GetBoth(format.NewWorkspaceRecord(workspaceRecord()))(t)
	image := must.Get(m.Image())(t)
	change(&image)
	m = mustManifest(t, image)
	tag.Hex = m.Digest.Encoded()[:8]
	return tag.String(), m
}

// TestForgedWorkspaceRecord rejects manifests that only resemble a record.
func TestForgedWorkspaceRecord(t *testing.T) {
	if tag, m := forge(t, func(i *ocispec.Manifest) { i.Annotations["vnd.okara.workspace.colour"] = "blue" }); true {
		if _, err := format.ParseWorkspaceRecord(tag, m); err != nil {
			t.Errorf("an annotation of a later okara: %v", err)
		}
	}
	set := func(key, value string) func(*ocispec.Manifest) {
		return func(i *ocispec.Manifest) { i.Annotations[key] = value }
	}
	for name, change := range map[string]func(*ocispec.Manifest){
		"another workspace":    set("org.opentofu.workspace", "dev"),
		"another number":       set("vnd.okara.workspace.seq", "8"),
		"number with zeros":    set("vnd.okara.workspace.seq", "000007"),
		"no nonce":             set("vnd.okara.workspace.nonce", ""),
		"tags not sorted":      set("vnd.okara.workspace.tags", `{"b":"","a":""}`),
		"a tag twice":          set("vnd.okara.workspace.tags", `{"a":"1","a":"2"}`),
		"tags that nest":       set("vnd.okara.workspace.tags", strings.Repeat(`{"a":`, 2000)+`""`+strings.Repeat("}", 2000)),
		"tags that are null":   set("vnd.okara.workspace.tags", "null"),
		"tags that are empty":  set("vnd.okara.workspace.tags", "{}"),
		"deleted, maybe":       set("vnd.okara.workspace.deleted", "yes"),
		"time of another zone": set("vnd.okara.workspace.created", "2026-11-22T12:00:00+02:00"),
		"no time":              set("org.opencontainers.image.created", ""),
		"too long":             set("vnd.okara.workspace.description", strings.Repeat("d", 1025)),
		"escape":               set("vnd.okara.workspace.by", "\x1b]0;x\a"),
		"17 KiB":               set("vnd.okara.workspace.colour", strings.Repeat("b", 17<<10)),
		"another type":         func(i *ocispec.Manifest) { i.ArtifactType = format.ArtifactState },
		"two layers":           func(i *ocispec.Manifest) { i.Layers = append(i.Layers, i.Layers[0]) },
		"a layer of bytes":     func(i *ocispec.Manifest) { i.Layers[0].MediaType = "text/plain" },
	} {
		tag, m := forge(t, change)
		if _, err := format.ParseWorkspaceRecord(tag, m); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	tag, m := forge(t, func(*ocispec.Manifest) {})
	if _, err := format.ParseWorkspaceRecord(tag, m); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	for _, other := range []string{"workspace-prod-000008-" + tag[len(tag)-8:], "workspace-prod-000007-00000000", "workspace-dev-000007-" + tag[len(tag)-8:], "state-prod"} {
		if _, err := format.ParseWorkspaceRecord(other, m); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("under the tag %s: %v", other, err)
		}
	}
}

// FuzzParseWorkspaceRecord: a record that can be read can be written again under its tag.
func FuzzParseWorkspaceRecord(f *testing.F) {
	_, m := must.GetBoth(format.NewWorkspaceRecord(workspaceRecord()))(f)
	f.Add("prod", 7, m.Bytes)
	f.Add("prod", 1, []byte(`{"schemaVersion":2,"artifactType":"application/vnd.okara.workspace.v1","config":{},"layers":[{}]}`))
	f.Fuzz(func(t *testing.T, fragment string, seq int, b []byte) {
		d := digest.FromBytes(b)
		m := oci.Manifest{Descriptor: oci.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d, Size: int64(len(b))}, Bytes: b}
		tag := format.WorkspaceTag{Fragment: fragment, Seq: seq, Hex: d.Encoded()[:8]}.String()
		r, err := format.ParseWorkspaceRecord(tag, m)
		if err != nil {
			return
		}
		if format.StateFragment(r.Workspace) != fragment || r.Seq != seq || r.Tag != tag {
			t.Errorf("%s is a record of %q, number %d", tag, r.Workspace, r.Seq)
		}
		_, again, err := format.NewWorkspaceRecord(r)
		if err != nil {
			t.Errorf("not written again: %v", err)
		}
		if !json.Valid(again.Bytes) {
			t.Error("no JSON")
		}
	})
}

// FuzzParseWorkspaceTag: a parsed tag is written as the same tag.
func FuzzParseWorkspaceTag(f *testing.F) {
	f.Add("workspace-prod-000007-01234567")
	f.Add("workspace-a-000001-abcdef01-000002-12345678")
	f.Fuzz(func(t *testing.T, tag string) {
		if w, ok := format.ParseWorkspaceTag(tag); ok && w.String() != tag {
			t.Errorf("%q is written as %q", tag, w)
		}
	})
}
