// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/text"
)

// TestWords converts words of settings to those of Kubernetes, and back.
func TestWords(t *testing.T) {
	for word, name := range map[string]string{"": "", "editions": "Editions", "flux-helm": "FluxHelm", "8h": "8h"} {
		if got := text.Camel(word); got != name {
			t.Errorf("%q is %q, want %q", word, got, name)
		}
		if got := text.Kebab(name); got != word {
			t.Errorf("%q is %q, want %q", name, got, word)
		}
	}
	if got := text.Camel("destroy_failed"); got != "DestroyFailed" {
		t.Errorf("a phase is %q", got)
	}
}
