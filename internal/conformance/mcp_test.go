// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
)

func buildOkara(t *testing.T) string {
	t.Helper()
	okara := filepath.Join(t.TempDir(), "okara")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", okara, "./cmd/okara")
	build.Dir = "../.."
	must.Get(build.CombinedOutput())(t)
	return okara
}

// newMCPSite returns a registry, the address of a server for assistants, and the program.
func newMCPSite(t *testing.T) (at, url, okara string) {
	t.Helper()
	host := ocitest.New(t, ocitest.Quirks{})
	client := must.Get(oci.New(host, oci.Options{PlainHTTP: true}))(t)
	layout := addr.Layout{Prefix: "conformance/mcp"}
	publishModule(t, depot.New(depot.Options{Client: client, Layout: layout}))
	front := must.Get(server.New(server.Options{
		Options: registry.Options{Client: client, Layout: layout}, MCP: true,
		Access: access.Policy{Anonymous: rights.AnonymousRead()}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("k"), 32)}},
	}))(t)
	web := httptest.NewServer(front)
	t.Cleanup(web.Close)
	return host + "/conformance/mcp", web.URL + "/mcp", buildOkara(t)
}

// TestMCP has the official SDK ask a server, and the program on standard input, by each revision of
// the protocol. Structured content fits the schemas of the tools.
func TestMCP(t *testing.T) {
	registry, server, okara := newMCPSite(t)
	for _, version := range append(mcp.SupportedProtocolVersions(), "") {
		for name, transport := range map[string]mcp.Transport{
			"server":  &mcp.StreamableClientTransport{Endpoint: server, HTTPClient: http.DefaultClient},
			"program": &mcp.CommandTransport{Command: exec.CommandContext(t.Context(), okara, "mcp", "--registry", registry)},
		} {
			t.Run(name+" "+version, func(t *testing.T) {
				s := must.Get(mcp.NewClient(&mcp.Implementation{Name: "judge", Version: "1"}, nil).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version}))(t)
				must.Succeed(t, s.Ping(t.Context(), nil))
				tools := must.Get(s.ListTools(t.Context(), nil))(t).Tools
				schemas := map[string]*jsonschema.Resolved{}
				for _, tool := range tools {
					var schema jsonschema.Schema
					must.Succeed(t, json.Unmarshal(must.Get(json.Marshal(tool.OutputSchema))(t), &schema))
					if schemas[tool.Name] = must.Get(schema.Resolve(nil))(t); !tool.Annotations.ReadOnlyHint {
						t.Errorf("%s may change something", tool.Name)
					}
				}
				for name, arguments := range map[string]map[string]any{
					"search": {"query": "vpc"}, "module": {"address": "net/vpc/aws"}, "versions": {"address": "net/vpc/aws@~> 1.0"}, "compare": {"address": "net/vpc/aws"},
				} {
					r := must.Get(s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments}))(t)
					if err := schemas[name].Validate(r.StructuredContent); err != nil || r.IsError {
						t.Errorf("%s: %v: %+v", name, err, r.Content[0])
					}
				}
				if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "yank"}); err == nil {
					t.Error("a tool that is not there")
				}
				must.Succeed(t, s.Close())
			})
		}
	}
}

// TestInspector has the inspector of the protocol's authors list and call the tools, of a server and of
// the program. It finds no fault with their schemas.
func TestInspector(t *testing.T) {
	inspector := os.Getenv("OKARA_TEST_INSPECTOR")
	if inspector == "" {
		t.Skip("OKARA_TEST_INSPECTOR is not set; `make interop` sets it if npm is on PATH")
	}
	registry, server, okara := newMCPSite(t)
	home := t.TempDir()
	for name, target := range map[string][]string{"server": {server}, "program": {"-e", "OKARA_REGISTRY=" + registry, okara, "mcp"}} {
		inspect := func(args ...string) string {
			cmd := exec.CommandContext(t.Context(), inspector, slices.Concat([]string{"--cli"}, target, args)...)
			cmd.Env = append(os.Environ(), "HOME="+home)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s %v: %v\n%s", name, args, err, out)
			}
			return string(out)
		}
		tools := inspect("--method", "tools/list", "--strict")
		for tool, want := range map[string]string{"search": "net/vpc/aws", "module": "1.10.0", "versions": "1.10.0", "compare": "breaks"} {
			arg := "address=net/vpc/aws"
			if tool == "search" {
				arg = "query=vpc"
			}
			got := inspect("--method", "tools/call", "--tool-name", tool, "--tool-arg", arg)
			if !strings.Contains(tools, `"name": "`+tool+`"`) || !strings.Contains(got, want) {
				t.Errorf("%s, %s: %s", name, tool, got)
			}
		}
	}
}
