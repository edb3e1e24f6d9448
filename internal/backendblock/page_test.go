// SPDX-License-Identifier: Apache-2.0

package backendblock_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/must"
)

const pageHead = `# Arguments of the backend block and of the state store

The [block](../use/backend.md) ` + "`backend \"oci\"`" + ` and the [state store](../use/state-store.md)
` + "`okara_oci`" + ` have the same arguments. This page is made from the table that both read.

| argument | what | default |
|---|---|---|
`

const pageFoot = `
A name with a dot is one in a block of that name; in the state store, which has no
blocks, it is one in an object: ` + "`retry = { max_attempts = 3 }`" + `. ` + "`encryption`" + ` may be repeated, in
the state store it is a list of objects; each of its keys opens the state. Durations
are written ` + "`30s`, `5m`, `1h`" + `. Paths are relative to the root module. What is not in this
table, or contradicts itself, is refused.

Each argument can also be set by the environment, where nothing else sets it:
` + "`TF_BACKEND_OCI_`" + ` and its name in capitals, dots as underscores, such as
` + "`TF_BACKEND_OCI_VERSIONING_MAX_VERSIONS`" + `. Lists have commas.
`

// TestPage compares docs/reference/backend-options.md with the table. `make docs` writes it.
func TestPage(t *testing.T) {
	const file = "../../docs/reference/backend-options.md"
	var page strings.Builder
	page.WriteString(pageHead)
	for _, o := range backendblock.Options() {
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", o.Name, o.What, o.Default)
	}
	page.WriteString(pageFoot)
	if os.Getenv("OKARA_UPDATE") != "" {
		must.Succeed(t, os.WriteFile(file, []byte(page.String()), 0o644))
	}
	got := must.Get(os.ReadFile(file))(t)
	must.Match(t, file+": is not what the table says; make docs writes it", string(got), page.String())
}
