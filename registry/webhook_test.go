// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
)

// TestHookPublishes sends every event that publishes, with names and tags in
// every form.
//
// Shows: aws-registry 1 | a webhook for new tags | `POST /hooks/github` for tags and releases, with
// a queue in the registry that survives a restart; `okara serve --depot` finds them on its interval
// as well
func TestHookPublishes(t *testing.T) {
	tests := []struct {
		name, event, body string
		secret            string
		module, version   string
		annotations       map[string]string
	}{
		{name: "push", event: "push", body: pushed("acme/terraform-aws-vpc", "v1.2.3", commitA), module: "acme/vpc/aws", version: "1.2.3",
			annotations: map[string]string{artifact.AnnRevision: commitA, artifact.AnnSourceRef: "v1.2.3", artifact.AnnSource: "https://forge.test/acme/terraform-aws-vpc"}},
		{name: "create", event: "create", body: created("acme/terraform-aws-vpc", "v1.2.4"), module: "acme/vpc/aws", version: "1.2.4",
			annotations: map[string]string{artifact.AnnRevision: commitB, artifact.AnnSourceRef: "v1.2.4"}},
		{name: "release", event: "release", body: released("acme/terraform-aws-vpc", "v1.2.4"), module: "acme/vpc/aws", version: "1.2.4"},
		{name: "second secret", event: "push", body: pushed("acme/terraform-aws-vpc", "2", commitA), secret: "another-" + hookSecret, module: "acme/vpc/aws", version: "2.0.0"},
		{name: "capitals", event: "push", body: pushed("ACME/Terraform-AWS-Big-Data", "v1.0.0-rc.1", commitA), module: "acme/big-data/aws", version: "1.0.0-rc.1",
			annotations: map[string]string{artifact.AnnTitle: "acme/Big-Data/aws"}},
		{name: "hook block", event: "push", body: pushed("acme/storage", "v1.0.0", commitA), module: "data/bucket/aws", version: "1.0.0",
			annotations: map[string]string{artifact.AnnSourcePath: "terraform/bucket"}},
		{name: "folder of the hook block", event: "push", body: pushed("acme/storage", "terraform/bucket/v1.1.0", commitA), module: "data/bucket/aws", version: "1.1.0"},
		{name: "monorepo", event: "push", body: pushed("acme/infra", "modules/dns/v0.1.0", commitA), module: "net/dns/aws", version: "0.1.0"},
		{name: "monorepo with a module that uses another", event: "push", body: pushed("acme/infra", "modules/net/v0.1.0", commitA), module: "net/net/aws", version: "0.1.0",
			annotations: map[string]string{artifact.AnnModulePath: "modules/net", artifact.AnnSourcePath: "modules/net"}},
		{name: "monorepo by system", event: "create", body: created("acme/by-system", "azurerm/dns/v0.2.0"), module: "net/dns/azurerm", version: "0.2.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				files := map[string]string{}
				if tt.name == "monorepo" {
					files["NOTES@"] = "README.md" // a link beside the module
				}
				for _, dir := range []string{"", "terraform/bucket/", "modules/dns/", "azurerm/dns/"} {
					files[dir+"main.tf"] = "# " + dir + "\n"
					files[dir+".tfignore"], files[dir+"README.md"] = "*.md\n", "x"
				}
				files["modules/net/main.tf"] = "module \"dns\" {\n  source = \"../dns\"\n}\n"
				h := newHooked(t, store, &forge{
					tags:  map[string]string{"acme/terraform-aws-vpc@v1.2.4": commitB, "acme/by-system@azurerm/dns/v0.2.0": commitB},
					trees: map[string][]byte{commitA: newTree(files), commitB: newTree(files)},
				})
				defer h.run(t)()
				var header []string
				if tt.secret != "" {
					header = []string{"X-Hub-Signature-256", hookSign(tt.secret, tt.body)}
				}
				status, body := h.deliver(t, tt.event, tt.body, header...)
				if status != http.StatusAccepted || !strings.Contains(body, tt.module) || !strings.Contains(body, tt.version) {
					t.Fatalf("%d %s", status, body)
				}
				synctest.Wait()
				h.mustVersions(t, tt.module, tt.version)
				if t.Failed() {
					t.Fatal(h.log.take())
				}
				r := must.Fixed(h.client.Repo("platform/modules/" + tt.module))
				m := must.Fixed(artifact.ParseModule(must.Fixed(r.Fetch(t.Context(), strings.ReplaceAll(tt.version, "+", "_")))))
				for key, want := range tt.annotations {
					if m.Annotations[key] != want {
						t.Errorf("annotation %s: %q, want %q", key, m.Annotations[key], want)
					}
				}
				if body := string(must.Fixed(r.ReadBlob(t.Context(), *m.Zip, 1<<20))); strings.Contains(body, "README") {
					t.Error("an ignored file was shipped")
				}
				if audit := h.audit.take(); !strings.Contains(audit, `"msg":"change"`) || !strings.Contains(audit, m.Manifest.Digest.String()) {
					t.Errorf("the audit log does not name what was published: %s", audit)
				}
			})
		})
	}
}

// TestHookOnce sends a tag in all the events that report one, and one delivery again.
func TestHookOnce(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		const name = "acme/terraform-aws-vpc"
		api := &forge{tags: map[string]string{name + "@v1.0.0": commitA}, trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		h := newHooked(t, store, api)
		defer h.run(t)()
		var digests []string
		for _, d := range []struct {
			event, body string
			header      []string
			want        int
		}{
			{"push", pushed(name, "v1.0.0", commitA), nil, 202},
			{"create", created(name, "v1.0.0"), nil, 202},
			{"release", released(name, "v1.0.0"), nil, 202},
			{"release", released(name, "v1.0.0"), []string{"X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-000000000003"}, 200},
		} {
			asked := api.asked()
			status, body := h.deliver(t, d.event, d.body, d.header...)
			synctest.Wait()
			if status != d.want || (status == 200) != strings.Contains(body, `"duplicate","reason":"done: registry.test/platform/modules/acme/vpc/aws:1.0.0@`) {
				t.Errorf("%s: %d %s, want %d", d.event, status, body, d.want)
			}
			if status == 200 && api.asked() != asked {
				t.Error("a replay was done again")
			}
			h.mustVersions(t, "acme/vpc/aws", "1.0.0")
			digests = append(digests, must.Fixed(must.Fixed(h.client.Repo("platform/modules/acme/vpc/aws")).Resolve(t.Context(), "1.0.0")).Digest.String())
		}
		if len(slices.Compact(digests)) != 1 {
			t.Errorf("the version changed: %v", digests)
		}
	})
}

// TestHookSurvives stops a server between its answer and the work.
//
// Shows: aws-registry 1
func TestHookSurvives(t *testing.T) {
	store := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		api := &forge{trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""})}}
		h := newHooked(t, store, api)
		if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)); status != http.StatusAccepted {
			t.Fatal(status, body)
		}
		h.delivery--
		if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v1.0.0", commitA)); status != http.StatusOK || !strings.Contains(body, "not done yet") {
			t.Errorf("a replay: %d %s", status, body)
		}
		next := newHooked(t, store, api)
		defer next.run(t)()
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		next.mustVersions(t, "acme/vpc/aws", "1.0.0")
	})
}

// TestHookBadTrees fetches trees that must not be published: the job fails at
// once, with the reason.
//
// Shows: mistakes 2
func TestHookBadTrees(t *testing.T) {
	tests := []struct {
		name, tag string
		tree      []byte
		want      string
	}{
		{"path out of the tree", "v1.0.0", newTree(map[string]string{"main.tf": "", "../../evil.tf": ""}), "../"},
		{"bomb", "v1.0.0", newTree(map[string]string{"main.tf": strings.Repeat(" ", 128<<20+1)}), "expands to more than"},
		{"link", "v1.0.0", newTree(map[string]string{"main.tf": "", "x@": "/etc/passwd"}), "not inside the archive"},
		{"deep", "v1.0.0", newTree(map[string]string{"main.tf": "x = " + strings.Repeat("!", 500_000)}), "main.tf:1: nested more than 1000 deep"},
		{"no module", "v1.0.0", newTree(map[string]string{"README.md": ""}), ".tf"},
		{"broken", "v1.0.0", newTree(map[string]string{"main.tf": "a {}\n"}), "main.tf:1:1: Unsupported block type"},
		{"no archive", "v1.0.0", []byte("<html>hello</html>"), "is not a complete zip, tar, tar.gz"},
		{"other content", "v0.9.0", newTree(map[string]string{"main.tf": "# moved\n"}), "already published"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := ocitest.Handler(t, ocitest.Quirks{})
			synctest.Test(t, func(t *testing.T) {
				api := &forge{trees: map[string][]byte{commitA: newTree(map[string]string{"main.tf": ""}), commitB: tt.tree}}
				h := newHooked(t, store, api)
				defer h.run(t)()
				h.deliver(t, "push", pushed("acme/terraform-aws-vpc", "v0.9.0", commitA))
				synctest.Wait()
				asked := api.asked()
				if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", tt.tag, commitB)); status != http.StatusAccepted {
					t.Fatal(status, body)
				}
				time.Sleep(6 * time.Hour)
				synctest.Wait()
				must.Equal(t, "requests to GitHub", api.asked()-asked, 2)
				h.mustVersions(t, "acme/vpc/aws", "0.9.0")
				end, err := jobs.ReadEnd(t.Context(), must.Fixed(h.client.Repo("platform/queue")), "72d3162e-cc78-11e3-81ab-000000000002")
				if err != nil || !end.Failed || !strings.Contains(end.Result, tt.want) {
					t.Errorf("ended with %+v, %v; want a failure with %q", end, err, tt.want)
				}
				h.delivery--
				if status, body := h.deliver(t, "push", pushed("acme/terraform-aws-vpc", tt.tag, commitB)); status != http.StatusOK || !strings.Contains(body, "failed: ") {
					t.Errorf("a replay: %d %s, want the reason", status, body)
				}
				if log := h.log.take(); !strings.Contains(log, "level=ERROR") {
					t.Errorf("nothing in the log calls for a person: %s", log)
				}
			})
		})
	}
}

// TestHookOptions checks that New refuses mistakes in the configuration.
func TestHookOptions(t *testing.T) {
	good := registry.GitHub{Owner: "acme", Secrets: [][]byte{[]byte(hookSecret)}, Origins: func() (supply.Origins, error) { return supply.Origins{}, nil }}
	tests := []struct {
		name   string
		change func(*registry.GitHub)
		want   string // "": accepted
	}{
		{"good", func(*registry.GitHub) {}, ""},
		{"no owner", func(g *registry.GitHub) { g.Owner = "" }, "organization or user"},
		{"no secret", func(g *registry.GitHub) { g.Secrets = nil }, "secret"},
		{"empty secret", func(g *registry.GitHub) { g.Secrets = append(g.Secrets, nil) }, "16 characters"},
		{"no namespace", func(g *registry.GitHub) { g.Owner = "acme_-x" }, "namespace"},
		{"no address", func(g *registry.GitHub) { g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/b"}} }, "NAMESPACE/NAME/SYSTEM"},
		{"system alone", func(g *registry.GitHub) {
			g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/b/{system}"}}
		}, "without"},
		{"folder elsewhere", func(g *registry.GitHub) {
			g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/b/c", Dir: "../d"}}
		}, "../d"},
		{"two folders", func(g *registry.GitHub) {
			g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/{name}/c", Dir: "d"}}
		}, "folder"},
		{"repository of another", func(g *registry.GitHub) { g.Modules = []registry.GitHubModule{{Repository: "x/y", Address: "a/b/c"}} }, "name of a repository"},
		{"repository twice", func(g *registry.GitHub) {
			g.Modules = []registry.GitHubModule{{Repository: "x", Address: "a/b/c"}, {Repository: "X", Address: "a/b/d"}}
		}, "twice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := good
			tt.change(&g)
			if err := g.Validate(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
