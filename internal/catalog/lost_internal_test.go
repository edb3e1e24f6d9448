// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestLostBound records a bounded number of lost versions, whatever is requested.
func TestLostBound(t *testing.T) {
	var out strings.Builder
	m := &lostVersions{log: slog.New(slog.NewTextHandler(&out, nil))}
	var last addr.Version
	for i := range maxLost + 5 {
		v := must.Get(addr.ParseVersion(fmt.Sprintf("1.%d.0", i)))(t)
		if added := m.addDangling("acme/modules/net/vpc/aws", v, ""); added != (i < maxLost) {
			t.Fatalf("version %d: %v", i, added)
		}
		m.warn("acme/modules/net/vpc/aws", v.Tag())
		last = v
	}
	must.Equal(t, "lines in the log", strings.Count(out.String(), "the tag is skipped"), maxLost)
	known := m.lostIn("acme/modules/net/vpc/aws")
	for v := range known {
		m.removeLost("acme/modules/net/vpc/aws", v, "")
		break
	}
	if len(known) != maxLost || !m.addDangling("acme/modules/net/vpc/aws", last, "") {
		t.Errorf("%d are known; there is no room once one is back", len(known))
	}
}
