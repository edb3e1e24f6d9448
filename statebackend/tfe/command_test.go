// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// stateOf is a state without resources.
func stateOf(lineage string, serial int) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":%q,"outputs":{},"resources":[]}`, serial, lineage)
}

// managing is a state with a resource.
func managing(lineage string, serial int) string {
	return strings.Replace(stateOf(lineage, serial), `"resources":[]`, `"resources":[{"mode":"managed","type":"x","name":"y","provider":"p","instances":[{"attributes":{"id":"1"}}]}]`, 1)
}

// command is a tool's process with its observed requests, 5xx repeated.
type command struct {
	client
	name string // of the workspace
	id   string // as the command received it
}

// begin starts a command for a workspace of acme, with its first read.
func (c client) begin(name string) *command {
	c.t.Helper()
	cmd := &command{client: c, name: name}
	cmd.must(http.StatusNoContent, http.MethodGet, "ping", nil)
	cmd.must(http.StatusOK, http.MethodGet, "organizations/acme/entitlement-set", nil)
	return cmd
}

// send sends a request, and repeats it while the answer is 5xx.
func (c *command) send(method, path string, body any) reply {
	c.t.Helper()
	for range 5 {
		if a := c.do(method, path, body); a.status < 500 {
			return a
		}
	}
	c.t.Fatalf("%s %s is answered with 5xx for ever", method, path)
	return reply{}
}

func (c *command) must(status int, method, path string, body any) reply {
	c.t.Helper()
	a := c.send(method, path, body)
	if a.status != status {
		c.t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// read reads the workspace by its name.
func (c *command) read() *command {
	c.t.Helper()
	c.id = c.must(http.StatusOK, http.MethodGet, "organizations/acme/workspaces/"+url.PathEscape(c.name), nil).item().ID
	return c
}

func (c *command) lock() reply {
	c.t.Helper()
	return c.send(http.MethodPost, "workspaces/"+c.id+"/actions/lock", object{"reason": "test"})
}

func (c *command) unlock() reply {
	c.t.Helper()
	return c.send(http.MethodPost, "workspaces/"+c.id+"/actions/unlock", nil)
}

// state reads the current state; "" if there is none.
func (c *command) state() string {
	c.t.Helper()
	a := c.send(http.MethodGet, "workspaces/"+c.id+"/current-state-version", nil)
	if a.status == http.StatusNotFound {
		return ""
	}
	if a.status != http.StatusOK {
		c.t.Fatalf("the current state: %d %s", a.status, a.body)
	}
	at := fmt.Sprint(a.item().Attributes["hosted-state-download-url"])
	return string(c.must(http.StatusOK, http.MethodGet, at, nil).body)
}

// write stores a state in two steps, up to the first failure.
func (c *command) write(state string) reply {
	c.t.Helper()
	a := c.send(http.MethodPost, "workspaces/"+c.id+"/state-versions", announce(state))
	if a.status != http.StatusCreated {
		return a
	}
	made := a.item()
	if up := c.anonymous().send(http.MethodPut, fmt.Sprint(made.Attributes["hosted-state-upload-url"]), state); up.status != http.StatusOK {
		return up
	}
	if up := c.anonymous().send(http.MethodPut, fmt.Sprint(made.Attributes["hosted-json-state-upload-url"]), "{}"); up.status != http.StatusOK {
		return up
	}
	return c.must(http.StatusOK, http.MethodGet, "state-versions/"+made.ID, nil)
}

// anonymous is the command without its token, which is how it uploads.
func (c *command) anonymous() *command {
	without := *c
	without.client = c.as("")
	return &without
}

// announce is the body that announces a state.
func announce(state string) object {
	var serial int
	var lineage string
	if _, after, ok := strings.Cut(state, `"serial":`); ok {
		_, _ = fmt.Sscanf(after, "%d", &serial)
	}
	if _, after, ok := strings.Cut(state, `"lineage":"`); ok {
		lineage, _, _ = strings.Cut(after, `"`)
	}
	sum := md5.Sum([]byte(state))
	return object{"data": object{"type": "state-versions", "attributes": object{
		"serial": serial, "lineage": lineage, "md5": hex.EncodeToString(sum[:]), "force": false,
	}}}
}

// apply is a whole apply with one write.
func (c client) apply(name, state string) *command {
	c.t.Helper()
	cmd := c.begin(name).read()
	cmd.read() // the tools read it twice
	if a := cmd.lock(); a.status != http.StatusOK {
		c.t.Fatalf("lock: %d %s", a.status, a.body)
	}
	cmd.state()
	if a := cmd.write(state); a.status != http.StatusOK || a.item().Attributes["status"] != "finalized" {
		c.t.Fatalf("write: %d %s", a.status, a.body)
	}
	if a := cmd.unlock(); a.status != http.StatusOK {
		c.t.Fatalf("unlock: %d %s", a.status, a.body)
	}
	return cmd
}
