// SPDX-License-Identifier: Apache-2.0

package s3facade_test

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

func TestMultipart(t *testing.T) {
	r := newRun(t, ocitest.New(t, ocitest.Quirks{}))
	r.must(200, "PUT", r.key()+".tflock", lockBody("one"), "If-None-Match", "*")
	state := `{"serial":1,"lineage":"` + strings.Repeat("y", 3000) + `"}`
	id := r.begin()
	var done strings.Builder
	for i := range 4 {
		from, to := i*len(state)/4, (i+1)*len(state)/4
		r.must(200, "PUT", r.part(id, i+1), "another content of this part")
		a := r.must(200, "PUT", r.part(id, i+1), state[from:to])
		fmt.Fprintf(&done, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, a.header.Get("ETag"))
	}
	complete := "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" + done.String() + "</CompleteMultipartUpload>"
	r.must(404, "HEAD", r.key(), "")
	r.must(200, "POST", r.key()+"?uploadId="+id, complete)
	if got := r.must(200, "GET", r.key(), "").body; got != state {
		t.Errorf("got %d bytes, want %d", len(got), len(state))
	}
	r.must(404, "POST", r.key()+"?uploadId="+id, complete)
	r.must(204, "DELETE", r.key()+".tflock", "")
}

func TestMultipartRefusals(t *testing.T) {
	r := newRun(t, ocitest.New(t, ocitest.Quirks{}))
	id := r.begin()
	r.must(400, "PUT", r.part(id, 0), "x")
	r.must(400, "PUT", r.part(id, 10001), "x")
	tag := r.must(200, "PUT", r.part(id, 1), "x").header.Get("ETag")
	two := r.must(200, "PUT", r.part(id, 2), "y").header.Get("ETag")
	for name, body := range map[string]string{
		"MalformedXML":     "<Complete",
		"InvalidPart":      "<C><Part><PartNumber>1</PartNumber><ETag>other</ETag></Part></C>",
		"InvalidPartOrder": "<C><Part><PartNumber>2</PartNumber><ETag>" + two + "</ETag></Part><Part><PartNumber>1</PartNumber><ETag>" + tag + "</ETag></Part></C>",
	} {
		must.Equal(t, "value", r.must(400, "POST", r.key()+"?uploadId="+id, body).code(t), name)
	}
	r.must(404, "POST", r.keyOf("dev")+"?uploadId="+id, "") // another key
	must.Equal(t, "value", r.must(400, "PUT", r.part(id, 3), strings.Repeat("z", 1<<20)).code(t), "EntityTooLarge")
	r.must(204, "DELETE", r.key()+"?uploadId="+id, "")
	r.must(404, "DELETE", r.key()+"?uploadId="+id, "")
	r.must(404, "HEAD", r.key(), "")
}

// An upload that is never completed leaves nothing on disk.
func TestCloseRemovesUploads(t *testing.T) {
	r := newRun(t, ocitest.New(t, ocitest.Quirks{}))
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r.must(200, "PUT", r.part(r.begin(), 1), "x")
	must.Succeed(t, r.facade.Close())
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func (r *run) begin() string {
	r.t.Helper()
	var res struct{ UploadId string }
	a := r.must(200, "POST", r.key()+"?uploads", "")
	if err := xml.Unmarshal([]byte(a.body), &res); err != nil || res.UploadId == "" {
		r.t.Fatalf("%v in %s", err, a.body)
	}
	return res.UploadId
}

func (r *run) part(id string, n int) string {
	return fmt.Sprintf("%s?partNumber=%d&uploadId=%s", r.key(), n, id)
}
