// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
)

// TestMCP asks on standard input, of a server by a token, and of the registry behind it.
func TestMCP(t *testing.T) {
	r := newReadServer(t)
	for _, tt := range []struct{ call, args, server, registry string }{
		{"search", `{"query":"vpc"}`, `net/vpc/aws`, `net/vpc/aws`}, {"versions", `{"address":"net/vpc/aws"}`, `"version":"2.0.0"`, `yanked: broken`},
		{"module", `{"address":"net/vpc/aws"}`, `"input":"cidr","type":"string","required":true`, `"source":"oci://` + r.registry + `/modules/net/vpc/aws?tag=1.1.0"`},
		{"module", `{"address":"net/vpc/aws","section":"network"}`, "# A network", "# A network"}, {"compare", `{"address":"net/vpc/aws","from":"1.0.0"}`, `"to":"1.1.0"`, `"to":"1.1.0"`},
		{"versions", `{"address":"` + aMirrored + `"}`, `"kind":"mirror"`, `"kind":"mirror"`}, {"provider_docs", `{"address":"acme/dns"}`, "without documentation", "without documentation"},
		{"module", `{"address":"net/vqc/aws"}`, "similar addresses: net/vpc/aws", "similar addresses: net/vpc/aws"},
	} {
		for where, want := range map[string]string{"--server=" + r.server: tt.server, "--registry=" + r.registry: tt.registry} {
			in := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tt.call, tt.args)
			r.env = map[string]string{"OKARA_TOKEN": readToken}
			if got := r.okara(in+"\n", "mcp", where); got.code != cli.ExitOK || !strings.Contains(strings.ReplaceAll(got.out, `\"`, `"`), want) || got.err != "" {
				t.Errorf("%s %s %s: exit %d, want %s\n%s%s", where, tt.call, tt.args, got.code, want, got.out, got.err)
			}
		}
	}
}
