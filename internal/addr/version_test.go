// SPDX-License-Identifier: Apache-2.0

package addr_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
)

func mustVersion(t *testing.T, s string) addr.Version {
	t.Helper()
	return must.Get(addr.ParseVersion(s))(t)
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3": "1.2.3", "0.0.0-rc.1+b.5": "0.0.0-rc.1+b.5", "1.0.0--": "1.0.0--",
		"9223372036854775807.0.0": "9223372036854775807.0.0",
	} {
		if got := mustVersion(t, in).String(); got != want {
			t.Errorf("ParseVersion(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"":                                  "not a semantic version",
		"1.0":                               "did you mean 1.0.0?",
		"v1":                                "did you mean 1.0.0?",
		"vv1.0.0":                           "not a semantic version",
		"01.2.3":                            "not a semantic version",
		"1.2.3-01":                          "not a semantic version",
		"1.2.3_b":                           "not a semantic version",
		"latest":                            "not a semantic version",
		"1.9223372036854775808.0":           "above 9223372036854775807",
		" 1.2.3":                            "not a semantic version",
		"1.2.3-" + strings.Repeat("a", 200): "at most 128",
	} {
		if v, err := addr.ParseVersion(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseVersion(%q) = %q, %v, want an error with %q", in, v, err, want)
		}
	}
}

func TestVersionFromTag(t *testing.T) {
	tests := map[string]string{
		"1.2.3": "1.2.3", "1.2.3_b.1": "1.2.3+b.1", "1.2.3-rc.1_b": "1.2.3-rc.1+b",
		"9223372036854775808.0.0": "", "v1.2.3": "", "1.2": "", "1": "", "20240101": "", "01.2.3": "", "latest": "", "1.2.3_": "", "1.2.3_a_b": "",
		"1.2.3+b": "", "okara-status-1700000000000-0123456789abcdef": "", "1.2.3-linux_amd64": "1.2.3-linux+amd64",
	}
	for tag, want := range tests {
		v, ok := addr.VersionFromTag(tag)
		if ok != (want != "") || v.String() != want {
			t.Errorf("VersionFromTag(%q) = %q, %v, want %q", tag, v, ok, want)
		}
		if ok && v.Tag() != tag {
			t.Errorf("tag of %q = %q, want %q", v, v.Tag(), tag)
		}
	}
}

func TestVersionFromGit(t *testing.T) {
	tests := []struct{ tag, dir, version string }{
		{"v1.0", "", "1.0.0"}, {"1.2.3", "", "1.2.3"}, {"v2", "", "2.0.0"},
		{"modules/vpc/v1.4.0", "modules/vpc", "1.4.0"}, {"vpc/1.4.0-rc.1", "vpc", "1.4.0-rc.1"},
		{"release", "", ""}, {"vpc-v1.0.0", "", ""}, {"v1.2.3/", "", ""},
	}
	for _, tt := range tests {
		dir, v, err := addr.VersionFromGit(tt.tag)
		if (err != nil) != (tt.version == "") || v.String() != tt.version || err == nil && dir != tt.dir {
			t.Errorf("VersionFromGit(%q) = %q, %q, %v", tt.tag, dir, v, err)
		}
	}
}

func TestVersionOrder(t *testing.T) {
	want := []string{"1.0.0-alpha", "1.0.0-e9d6a0c4471b2", "1.0.0-rc.1", "1.0.0-rc.1-e9d6a0c4471b2", "1.0.0", "1.0.0+a", "1.0.0+b", "1.0.1", "1.0.10", "2.0.0"}
	var versions []addr.Version
	for _, s := range want {
		versions = append(versions, mustVersion(t, s))
	}
	slices.Reverse(versions)
	slices.SortFunc(versions, addr.Version.Compare)
	var got []string
	for _, v := range versions {
		got = append(got, v.String())
	}
	must.Match(t, "value", got, want)
}

func TestEdition(t *testing.T) {
	const hex = "9d6a0c4471b2ffffffff"
	for in, want := range map[string]string{
		"1.0.0": "1.0.0-e9d6a0c4471b2", "1.0.0-rc.1": "1.0.0-rc.1-e9d6a0c4471b2", "1.0.0+b.1": "1.0.0-e9d6a0c4471b2+b.1",
	} {
		v := mustVersion(t, in)
		e, err := v.WithEdition(hex)
		if err != nil || e.String() != want || !e.Edition() || v.Edition() || e.EditionOf() != v {
			t.Errorf("edition of %s = %s, %v (edition %v, of %s), want %s", in, e, err, e.Edition(), e.EditionOf(), want)
		}
	}
	for _, s := range []string{"1.0.0-e9d6a0c4471b", "1.0.0-E9d6a0c4471b2", "1.0.0-f9d6a0c4471b2", "1.0.0-rc.e9d6a0c4471b2", "1.0.0+e-e9d6a0c4471b2"} {
		if mustVersion(t, s).Edition() {
			t.Errorf("%s is taken for an edition", s)
		}
	}
	if _, err := mustVersion(t, "1.0.0").WithEdition("XYZ"); err == nil {
		t.Error("an edition of no digest: want an error")
	}
}

func TestNextPatch(t *testing.T) {
	for in, want := range map[string]string{"1.2.3": "1.2.4", "1.2.9": "1.2.10", "1.2.3-rc.1": "1.2.3", "1.2.3+b": "1.2.4", "0.0.99": "0.0.100"} {
		if got := mustVersion(t, in).NextPatch().String(); got != want {
			t.Errorf("next patch of %s = %s, want %s", in, got, want)
		}
	}
}

func TestBump(t *testing.T) {
	for in, want := range map[string][3]string{
		"1.2.3": {"2.0.0", "1.3.0", "1.2.4"}, "9.9.9": {"10.0.0", "9.10.0", "9.9.10"}, "0.1.0+b.1": {"1.0.0", "0.2.0", "0.1.1"}, "1.2.3-rc.1": {"2.0.0", "1.3.0", "1.2.4"},
	} {
		for i, part := range []string{addr.Major, addr.Minor, addr.Patch} {
			if got, err := mustVersion(t, in).Bump(part); err != nil || got.String() != want[i] {
				t.Errorf("%s after %s = %s, %v; want %s", part, in, got, err, want[i])
			}
		}
	}
	if v, err := mustVersion(t, "1.2.3").Bump("build"); err == nil {
		t.Errorf("a higher build is %s, want an error", v)
	}
}

func TestConstraint(t *testing.T) {
	tests := []struct {
		constraint string
		allows     string
		refuses    string
	}{
		{"", "1.0.0 0.0.1", "1.0.0-rc.1 1.0.0-e9d6a0c4471b2"},
		{"~> 1.0, != 1.0.3", "1.0.0 1.9.0", "1.0.3 2.0.0 1.1.0-rc.1"},
		{"~> 1.0.2", "1.0.2 1.0.9", "1.1.0 1.0.1"},
		{">= 1.0.0-rc.1", "1.0.0", "1.0.0-rc.2"},
		{"1.0.0-rc.1", "1.0.0-rc.1", "1.0.0-rc.2 1.0.0"},
		{"= 1.0", "1.0.0", "1.0.1"},
		{"1.0.0-e9d6a0c4471b2", "1.0.0-e9d6a0c4471b2", "1.0.0"},
		{"> 1.2, < 2", "1.2.1", "1.2.0 2.0.0"},
	}
	for _, tt := range tests {
		c := must.Get(addr.ParseConstraint(tt.constraint))(t)
		for v := range strings.FieldsSeq(tt.allows) {
			if !c.Allows(mustVersion(t, v)) {
				t.Errorf("%q refuses %s", tt.constraint, v)
			}
		}
		for v := range strings.FieldsSeq(tt.refuses) {
			if c.Allows(mustVersion(t, v)) {
				t.Errorf("%q allows %s", tt.constraint, v)
			}
		}
	}
	for _, s := range []string{"newest", "~>", "1.0 || 2.0", "^1.0"} {
		if _, err := addr.ParseConstraint(s); err == nil {
			t.Errorf("ParseConstraint(%q): want an error", s)
		}
	}
	if _, err := addr.ParseConstraint("latest"); err == nil || !strings.Contains(err.Error(), `"latest": must be a version or constraint`) {
		t.Errorf("%v", err)
	}
}

func TestPhantom(t *testing.T) {
	for tag, want := range map[string]string{
		"1": "1.0.0", "1.2": "1.2.0", "20240101": "20240101.0.0", "01.2.3": "1.2.3",
		"1.2.3": "", "1.2.3_b": "", "1.2.3-linux_amd64": "", "latest": "", "v1.2.3": "", "okara-status-1767225600000-0123456789abcdef": "",
	} {
		if got, ok := addr.Phantom(tag); got != want || ok != (want != "") {
			t.Errorf("Phantom(%q) = %q, %v, want %q", tag, got, ok, want)
		}
	}
}

func FuzzVersionTag(f *testing.F) {
	for _, s := range []string{"1.2.3", "1.2.3-rc.1+b", "1.2.3_b", "1", "1.2.3-linux_amd64", "v1.0.0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, ok := addr.VersionFromTag(s); ok && v.Tag() != s {
			t.Errorf("tag %q became %q", s, v.Tag())
		}
		v, err := addr.ParseVersion(s)
		if err != nil {
			return
		}
		if back, ok := addr.VersionFromTag(v.Tag()); !ok || back != v {
			t.Errorf("%q: back from tag %q: %q, %v", s, v.Tag(), back, ok)
		}
		if v.Compare(v) != 0 || v.NextPatch().Compare(v) <= 0 && !v.Prerelease() {
			t.Errorf("%q: order", s)
		}
	})
}

// TestConstraintNormal holds what OpenTofu 1.12.6 writes into a lock file, and refuses to read otherwise.
func TestConstraintNormal(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "1": "1.0.0", "=1.2": "1.2.0", ">= 6.28": ">= 6.28.0", "~> 1": "~> 1.0", "~>1.2": "~> 1.2", "~> 1.2.3": "~> 1.2.3", "~> 1.0.0": "~> 1.0.0", "!= 1.5, >=1, < 2": ">= 1.0.0, != 1.5.0, < 2.0.0",
		"<= 5, >= 4.40, >= 4.40.0, >= 10.0": ">= 4.40.0, <= 5.0.0, >= 10.0.0", "< 2.0.0, > 2.0, ~> 2.0, 2.0.0": "> 2.0.0, 2.0.0, ~> 2.0, < 2.0.0", ">= 1.0.0-beta.2": ">= 1.0.0-beta.2",
	} {
		c, err := addr.ParseConstraint(text)
		if got := c.Normal(); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}
