// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

func TestStateFragment(t *testing.T) {
	for _, name := range []string{"prod", "prod-v", "prod-v2-f", "v1", "-", strings.Repeat("n", 80)} {
		if got := artifact.StateFragment(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
	for _, name := range []string{
		"prod-v2", "ws-abc", strings.Repeat("n", 81), "with space", "Ünïcode", "",
		"x-000000000001-0123456789abcdef", "x-000000000001-0123456789abcdef-f",
	} {
		got := artifact.StateFragment(name)
		if !strings.HasPrefix(got, "ws-") || len(got) != 35 {
			t.Errorf("%q became %q, want ws- and 32 hex digits", name, got)
		}
		if artifact.StateFragment(got) == got {
			t.Errorf("a workspace named %q would share the tags of %q", got, name)
		}
	}
}

func TestStateTags(t *testing.T) {
	const x = "0123456789abcdef"
	for _, w := range []string{"prod", "prod-f", "prod-v", "v1", "a-000000000001", artifact.StateFragment("prod-v2"), strings.Repeat("n", 80)} {
		for _, tag := range []artifact.StateTag{
			{Kind: artifact.StatePointer, Fragment: w},
			{Kind: artifact.StateNumbered, Fragment: w, N: 42},
			{Kind: artifact.LockMarker, Fragment: w},
			{Kind: artifact.UnlockMarker, Fragment: w},
			{Kind: artifact.LockClaim, Fragment: w, N: 7, X: x},
			{Kind: artifact.LockTombstone, Fragment: w, N: 7, X: x},
			{Kind: artifact.ForceTombstone, Fragment: w, N: 100_007, X: x},
		} {
			s := tag.String()
			if len(s) > 128 {
				t.Errorf("%s: %d characters", s, len(s))
			}
			got, ok := artifact.ParseStateTag(s)
			if diff := cmp.Diff(tag, got); !ok || diff != "" {
				t.Errorf("%s (-want +got):\n%s", s, diff)
			}
		}
	}
	for _, s := range []string{"", "latest", "1.0.0", "state-", "okara-doctor", "locked-"} {
		if got, ok := artifact.ParseStateTag(s); ok {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
}

func TestStateManifestRoundTrip(t *testing.T) {
	want := artifact.StateManifest{
		Workspace: "Ünïcode", N: 42, Parent: "sha256:" + strings.Repeat("a", 64), ParentN: 41, Fence: 40, LockID: "id",
		Lineage: "l", Serial: 17, SHA256: "ab", Tool: "OpenTofu/1.12.6", Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Origin:   artifact.StateOrigin{Repository: "r/s", Workspace: "w", Version: 3, Fence: 2, Parent: "p"},
		Envelope: map[string]string{"vnd.okara.state.envelope": "1"},
		Layer:    artifact.StateLayer("+zstd+encrypted", []byte("bytes")).Descriptor,
	}
	m, err := artifact.NewStateManifest(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := artifact.ParseState(m)
	if err != nil {
		t.Fatal(err)
	}
	want.Manifest = m.Descriptor
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	if got.Encoding() != "+zstd+encrypted" {
		t.Errorf("encoding: %q", got.Encoding())
	}
}

func TestLockManifestRoundTrip(t *testing.T) {
	want := artifact.LockManifest{
		Kind: artifact.KindClaim, Workspace: "prod", Fence: 7, Nonce: "0123456789abcdef",
		Info: artifact.LockInfo{ID: "id", Operation: "apply", Info: "i", Who: "a@b", Version: "1.12.6", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Path: "p"},
		Beat: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), TTL: time.Minute,
		Created: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
	}
	m, err := artifact.NewLockManifest(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := artifact.ParseLock(m)
	if err != nil {
		t.Fatal(err)
	}
	want.Manifest = m.Descriptor
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

// Lock information is the word of whoever may write to the registry: 4 KiB, 16
// levels. What is more is not read, and the id of the claim remains.
func TestLockInfoBounds(t *testing.T) {
	nested := func(n int) string {
		return `{"ID":"id","Who":"a","More":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}`
	}
	for _, tt := range []struct {
		name, info string
		want       error
		who        string
	}{
		{"16 levels", nested(16), nil, "a"},
		{"17 levels", nested(17), oci.ErrTooLarge, ""},
		{"as many as fit", nested(artifact.MaxLockInfo / 3), oci.ErrTooLarge, ""},
		{"4 KiB", `{"Who":"a","Info":"` + strings.Repeat("i", 4<<10-len(`{"Who":"a","Info":""}`)) + `"}`, nil, "a"},
		{"more", `{"Who":"a","Info":"` + strings.Repeat("i", 4<<10) + `"}`, oci.ErrTooLarge, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := artifact.ParseLockInfo([]byte(tt.info)); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			m, err := artifact.NewLockManifest(artifact.LockManifest{Kind: artifact.KindClaim, Workspace: "prod", Info: artifact.LockInfo{ID: "id"}})
			if err != nil {
				t.Fatal(err)
			}
			img, err := m.Image()
			if err != nil {
				t.Fatal(err)
			}
			img.Annotations["vnd.okara.lock.info"] = tt.info
			if m, err = oci.NewManifest(img); err != nil {
				t.Fatal(err)
			}
			l, err := artifact.ParseLock(m)
			if err != nil || l.Info.ID != "id" || l.Info.Who != tt.who {
				t.Errorf("claim of %q by %q, %v", l.Info.ID, l.Info.Who, err)
			}
		})
	}
}
