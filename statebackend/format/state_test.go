// SPDX-License-Identifier: Apache-2.0

package format_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

func TestStateFragment(t *testing.T) {
	for _, name := range []string{"prod", "prod-v", "prod-v2-f", "v1", "-", strings.Repeat("n", 80)} {
		must.Equal(t, name+": became", format.StateFragment(name), name)
	}
	for _, name := range []string{
		"prod-v2", "ws-abc", strings.Repeat("n", 81), "with space", "Ünïcode", "",
		"x-000000000001-0123456789abcdef", "x-000000000001-0123456789abcdef-f",
	} {
		got := format.StateFragment(name)
		if !strings.HasPrefix(got, "ws-") || len(got) != 35 {
			t.Errorf("%q became %q, want ws- and 32 hex digits", name, got)
		}
		if format.StateFragment(got) == got {
			t.Errorf("a workspace named %q would share the tags of %q", got, name)
		}
	}
}

func TestStateTags(t *testing.T) {
	const x = "0123456789abcdef"
	for _, w := range []string{"prod", "prod-f", "prod-v", "v1", "a-000000000001", format.StateFragment("prod-v2"), strings.Repeat("n", 80)} {
		for _, tag := range []format.StateTag{
			{Kind: format.StatePointer, Fragment: w},
			{Kind: format.StateNumbered, Fragment: w, N: 42},
			{Kind: format.LockMarker, Fragment: w},
			{Kind: format.UnlockMarker, Fragment: w},
			{Kind: format.LockClaim, Fragment: w, N: 7, X: x},
			{Kind: format.LockTombstone, Fragment: w, N: 7, X: x},
			{Kind: format.ForceTombstone, Fragment: w, N: 100_007, X: x},
		} {
			s := tag.String()
			if len(s) > 128 {
				t.Errorf("%s: %d characters", s, len(s))
			}
			got, ok := format.ParseStateTag(s)
			if diff := cmp.Diff(tag, got); !ok || diff != "" {
				t.Errorf("%s (-want +got):\n%s", s, diff)
			}
		}
	}
	for _, s := range []string{"", "latest", "1.0.0", "state-", "okara-doctor", "locked-"} {
		if got, ok := format.ParseStateTag(s); ok {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
}

func TestStateManifestRoundTrip(t *testing.T) {
	want := format.StateManifest{
		Workspace: "Ünïcode", N: 42, Parent: "sha256:" + strings.Repeat("a", 64), ParentN: 41, Fence: 40, LockID: "id",
		Lineage: "l", Serial: 17, SHA256: "ab", Tool: "OpenTofu/1.12.6", Run: "https://ci.example.com/1", Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Origin:   format.StateOrigin{Repository: "r/s", Workspace: "w", Version: 3, Fence: 2, Parent: "p"},
		Envelope: map[string]string{"vnd.okara.state.envelope": "1"},
		Layer:    format.StateLayer("+zstd+encrypted", []byte("bytes")).Descriptor,
	}
	m := must.Get(format.NewStateManifest(want))(t)
	got := must.Get(format.ParseState(m))(t)
	want.Manifest = m.Descriptor
	must.Match(t, "manifest", got, want)
	must.Equal(t, "encoding", got.Encoding(), "+zstd+encrypted")
}

func TestLockManifestRoundTrip(t *testing.T) {
	want := format.LockManifest{
		Kind: format.KindClaim, Workspace: "prod", Fence: 7, Nonce: "0123456789abcdef",
		Info:      format.LockInfo{ID: "id", Operation: "apply", Info: "i", Who: "a@b", Version: "1.12.6", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Path: "p"},
		Heartbeat: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), TTL: time.Minute,
		Created: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
	}
	m := must.Get(format.NewLockManifest(want))(t)
	got := must.Get(format.ParseLock(m))(t)
	want.Manifest = m.Descriptor
	must.Match(t, "manifest", got, want)
}

// Lock information is bounded: 4 KiB, 16 levels. Beyond, the tag's id counts.
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
		{"as many as fit", nested(format.MaxLockInfo / 3), oci.ErrTooLarge, ""},
		{"4 KiB", `{"Who":"a","Info":"` + strings.Repeat("i", 4<<10-len(`{"Who":"a","Info":""}`)) + `"}`, nil, "a"},
		{"more", `{"Who":"a","Info":"` + strings.Repeat("i", 4<<10) + `"}`, oci.ErrTooLarge, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := format.ParseLockInfo([]byte(tt.info)); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			m, err := format.NewLockManifest(format.LockManifest{Kind: format.KindClaim, Workspace: "prod", Info: format.LockInfo{ID: "id"}})
			if err != nil {
				t.Fatal(err)
			}
			img := must.Get(m.Image())(t)
			img.Annotations["vnd.okara.lock.info"] = tt.info
			if m, err = oci.NewManifest(img); err != nil {
				t.Fatal(err)
			}
			l, err := format.ParseLock(m)
			if err != nil || l.Info.ID != "id" || l.Info.Who != tt.who {
				t.Errorf("claim of %q by %q, %v", l.Info.ID, l.Info.Who, err)
			}
		})
	}
}
