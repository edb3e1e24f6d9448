// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/text"
)

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"registry.example.com:5000/state/shop@v1": "registry.example.com:5000/state/shop@v1",
		"size=3": "size=3", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(id)": "'$(id)'", "~": "'~'", "é": "'é'",
	} {
		must.Equal(t, s, text.ShellWord(s), want)
	}
}
