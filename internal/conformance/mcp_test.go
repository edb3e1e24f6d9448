// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
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

// TestMCP has the official SDK ask a server, and the program on standard input, by each revision of
// the protocol. Structured content fits the schemas of the tools.
func TestMCP(t *testing.T) {
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
	okara := buildOkara(t)
	for _, version := range append(mcp.SupportedProtocolVersions(), "") {
		for name, transport := range map[string]mcp.Transport{
			"server":  &mcp.StreamableClientTransport{Endpoint: web.URL + "/mcp", HTTPClient: http.DefaultClient},
			"program": &mcp.CommandTransport{Command: exec.CommandContext(t.Context(), okara, "mcp", "--registry", host+"/conformance/mcp")},
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
