// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

//go:embed assets/app.css assets/app.js assets/icon.svg assets/app.webmanifest
var assetFiles embed.FS

// assetNames are the paths of the assets below /ui/, which change with their content.
type assetNames struct{ CSS, JS, Icon, Manifest string }

type assetFile struct {
	contentType   string
	plain, zipped []byte
}

type assetSet struct {
	names assetNames
	files map[string]assetFile // HASH/NAME
}

func newAssets() (assetSet, error) {
	set := assetSet{files: map[string]assetFile{}}
	for _, a := range []struct {
		file, contentType string
		name              *string
	}{
		{"app.css", "text/css; charset=utf-8", &set.names.CSS},
		{"app.js", "text/javascript; charset=utf-8", &set.names.JS},
		{"icon.svg", "image/svg+xml", &set.names.Icon},
		{"app.webmanifest", "application/manifest+json", &set.names.Manifest},
	} {
		b, err := assetFiles.ReadFile("assets/" + a.file)
		if err != nil {
			return set, err
		}
		zipped, err := gzipBytes(b)
		if err != nil {
			return set, err
		}
		sum := sha256.Sum256(b)
		path := hex.EncodeToString(sum[:8]) + "/" + a.file
		set.files[path] = assetFile{a.contentType, b, zipped}
		*a.name = "assets/" + path
	}
	return set, nil
}

func gzipBytes(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// sendAsset sends a file that browsers may cache for ever, since its address has the hash of
// its content.
func (s *site) sendAsset(w http.ResponseWriter, r *http.Request) error {
	f, ok := s.assets.files[r.PathValue("hash")+"/"+r.PathValue("file")]
	if !ok {
		return NotFound("file not found")
	}
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox") // if the file is opened as a page
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // an error means that the browser is gone
	return nil
}

// sendIcon leads browsers that ask for the usual address to the icon.
func (s *site) sendIcon(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Cache-Control", "public, max-age=86400")
	w.Header().Set("Location", "ui/"+s.assets.names.Icon)
	w.WriteHeader(http.StatusFound)
	return nil
}
