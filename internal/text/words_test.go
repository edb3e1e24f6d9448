// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/text"
)

// TestWords converts words of settings to those of Kubernetes, and back.
func TestWords(t *testing.T) {
	for word, name := range map[string]string{"": "", "editions": "Editions", "flux-helm": "FluxHelm", "8h": "8h"} {
		must.Equal(t, word, text.Camel(word), name)
		must.Equal(t, name, text.Kebab(name), word)
	}
	must.Equal(t, "a phase", text.Camel("destroy_failed"), "DestroyFailed")
}
