// SPDX-License-Identifier: Apache-2.0

package format

import (
	"errors"
	"io"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestConfiguration stores two uploads: repeated ones count once, others replace nothing.
func TestConfiguration(t *testing.T) {
	const record, id = "abcdefgh23", "0123456789abcdef"
	ocitest.Each(t, func(t *testing.T, host string) {
		ctx, r := t.Context(), ocitest.Repo(t, host)
		if list, err := Configurations(ctx, r, record); err != nil || len(list) != 0 {
			t.Errorf("of nothing: %v, %v", list, err)
		}
		put := func(record, text string) ConfigurationTag {
			t.Helper()
			tag := must.Get(PutConfiguration(ctx, r, record, id, oci.BytesBlob("", []byte(text))))(t)
			if back, ok := parseConfigurationTag(tag.String()); !ok || back != tag {
				t.Errorf("%s is parsed as %+v", tag, back)
			}
			return tag
		}
		first := put(record, "one")
		must.Equal(t, "repeated it", put(record, "one"), first)
		other := put("zbcdefgh23", "one")
		if other.Manifest == first.Manifest {
			t.Error("two records share a manifest")
		}
		if _, err := PutConfiguration(ctx, r, record, id, oci.BytesBlob("", []byte("two"))); !errors.Is(err, oci.ErrExists) {
			t.Errorf("other content: %v", err)
		}
		for tag, want := range map[ConfigurationTag]string{first: "one", other: "one"} {
			layer := must.Get(ReadConfiguration(ctx, r, tag))(t)
			body := must.Get(r.Open(ctx, layer))(t)
			if got, err := io.ReadAll(body); err != nil || string(got) != want {
				t.Errorf("%s is %q, %v", tag, got, err)
			}
			body.Close()
		}
		wrong := first
		wrong.Manifest = other.Manifest
		if _, err := ReadConfiguration(ctx, r, wrong); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("the upload of another record: %v", err)
		}
	})
}

func TestParseConfigurationTag(t *testing.T) {
	for _, tag := range []string{"", "cv-", "cv-a-0123456789abcdef", "cv-a-0123456789ABCDEF-" + "00", "run-a-1-1"} {
		if got, ok := parseConfigurationTag(tag); ok {
			t.Errorf("%q is %+v", tag, got)
		}
	}
}
