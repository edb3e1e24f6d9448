// SPDX-License-Identifier: Apache-2.0

package manual_test

import (
	"slices"
	"testing"

	"github.com/seed-141914ff/okara/internal/manual"
)

// TestSearch: what people type finds the page that they want among the first three.
func TestSearch(t *testing.T) {
	for query, want := range map[string]string{
		"install": "use/install", "start": "use/start", "air gap": "publish/air-gap", "lock modules": "use/lock-modules",
		"stuck lock": "use/state-locks", "cloud block": "use/state-cloud", "http backend": "use/state-http", "publish module": "publish/publish",
		"yank": "publish/retire", "sign": "publish/sign", "depot": "publish/depot", "harbor": "operate/harbor", "tokens": "operate/access",
		"monitor": "operate/monitor", "audit": "operate/audit", "templates": "publish/templates", "approval": "publish/depot-gates",
		"terragrunt": "use/terragrunt", "encrypt state": "use/state-keys", "github": "publish/ci", "webhook": "operate/webhook",
		"flux": "kubernetes/flux", "kinds": "kubernetes/kinds", "helm": "kubernetes/kubernetes-charts", "assistant": "use/assistants",
		"used by": "operate/used-by", "policies": "operate/policies", "failover": "use/state-failover", "performance": "reference/performance",
		"Artifacts": "reference/artifacts", "artefact": "", "": "",
		"token": "operate/access", "s3": "use/state-move", "gitlab": "publish/ci", "docker": "use/credentials", "upgrade": "operate/operate", "private module": "use/credentials",
		"tls": "operate/serve", "publish provider": "publish/publish", "latest version": "publish/retire", "rollback": "use/state", "migrate": "use/state-move", "permissions": "operate/access",
		"prometheus": "operate/monitor", "ghcr": "publish/ci", "backup": "operate/operate", "encryption": "use/state-keys", "proxy": "operate/serve", "cosign": "publish/sign",
		"delete version": "publish/retire", "unauthorized": "use/troubleshooting-tools", "github actions": "publish/ci", "jenkins": "publish/ci",
	} {
		found := manual.Search(query)
		if want == "" && len(found) == 0 {
			continue
		}
		if i := slices.IndexFunc(found, func(p manual.Page) bool { return p.Name == want }); i < 0 || i > 2 {
			t.Errorf("%q: %q is at %d of %d", query, want, i, len(found))
		}
	}
}

func TestGet(t *testing.T) {
	for name, want := range map[string]string{"use/start": "use/start", "start": "use/start", "/use/start.md": "use/start", "Start": "use/start", "okara_list": "reference/commands/okara_list", "index": "", "nothing": "", "": ""} {
		p, ok := manual.Get(name)
		if name == "index" { // of all pages, and of the commands: the exact name
			want = "index"
		}
		if ok != (want != "") || p.Name != want {
			t.Errorf("%q: %q, %v", name, p.Name, ok)
		}
	}
}
