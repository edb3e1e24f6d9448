// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
)

// TestKilledServerLeavesNoFiles kills a server with SIGKILL in the middle of an upload. The
// next server removes what it left in the folder for temporary files.
func TestKilledServerLeavesNoFiles(t *testing.T) {
	temp := t.TempDir()
	left := func() []os.DirEntry {
		return must.Get(os.ReadDir(temp))(t)
	}
	p := newServeProcess(t, []string{"TMPDIR=" + temp})
	body, sender := io.Pipe()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, p.url+"/v1/modules/net/vpc/aws/1.0.0", body))(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			t.Errorf("half an upload: %s", resp.Status)
		}
	}()
	must.Get(sender.Write([]byte("PK")))(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(left()) == 0 {
		<-tick.C
	}
	must.Succeed(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // was killed
	sender.Close()
	<-ended
	newServeProcess(t, []string{"TMPDIR=" + temp})
	if names := left(); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}
