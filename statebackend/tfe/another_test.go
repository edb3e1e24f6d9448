// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"testing"
)

// TestReadThroughAnother locks through one server and writes through another: the holder
// reads through the first one what it has written, from the first version on.
func TestReadThroughAnother(t *testing.T) {
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{}))
	other := tool.at(newServer(t, host, setup{}))
	tool.create("prod")
	id := tool.read("prod")
	tool.lock(http.StatusOK, id)
	here, there := &command{client: tool, name: "prod", id: id}, &command{client: other, name: "prod", id: id}
	for serial := range 3 {
		if a := there.write(stateOf("a", serial+1)); a.status != http.StatusOK {
			t.Fatalf("write: %d %s", a.status, a.body)
		}
		if got := here.state(); got != stateOf("a", serial+1) {
			t.Errorf("the holder reads %s after it wrote serial %d", got, serial+1)
		}
		here, there = there, here
	}
	tool.unlock(http.StatusOK, id)
}
