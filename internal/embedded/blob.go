// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// blobs serves reads of blobs that are in the directory straight from their
// files. The library reads each through a buffer of 4 MiB, which 100 parallel
// downloads multiply; a file goes from the kernel to the connection. All other
// requests, and every blob that is not found here, are the library's.
type blobs struct {
	http.Handler // the library
	r            *Registry
}

// Names cannot leave the directory: each part begins and ends with a letter or
// digit (OCI distribution specification 1.1, "Pulling manifests").
var blobPath = regexp.MustCompile(`^/v2/([a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)/blobs/sha256:([0-9a-f]{64})$`)

func (b blobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	match := blobPath.FindStringSubmatch(r.URL.Path)
	if match == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		b.Handler.ServeHTTP(w, r)
		return
	}
	f, err := b.r.OpenBlob(match[1], match[2])
	if err != nil {
		b.Handler.ServeHTTP(w, r) // it knows the proper refusal
		return
	}
	defer f.Close()
	h := w.Header()
	h.Set("Docker-Distribution-Api-Version", "registry/2.0")
	h.Set("Docker-Content-Digest", "sha256:"+match[2])
	h.Set("Content-Type", "application/octet-stream")
	h.Set("ETag", `"sha256:`+match[2]+`"`)
	h.Set("Cache-Control", "max-age=31536000")
	http.ServeContent(w, r, "", time.Time{}, f)
}

// OpenBlob returns the file of a blob if the repository has a link to it, as
// the library writes and removes them. In memory no blob has a file.
func (r *Registry) OpenBlob(name, hex string) (*os.File, error) {
	if r.root == "" || !blobPath.MatchString("/v2/"+name+"/blobs/sha256:"+hex) {
		return nil, os.ErrNotExist
	}
	v2 := filepath.Join(r.root, "docker", "registry", "v2")
	link, err := os.ReadFile(filepath.Join(v2, "repositories", filepath.FromSlash(name), "_layers", "sha256", hex, "link"))
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(string(link)) != "sha256:"+hex {
		return nil, os.ErrNotExist
	}
	return os.Open(filepath.Join(v2, "blobs", "sha256", hex[:2], hex, "data"))
}
