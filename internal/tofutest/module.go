// SPDX-License-Identifier: Apache-2.0

package tofutest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// ModuleVersions lists the versions of a module, "namespace/name/system".
func (c *Client) ModuleVersions(ctx context.Context, service *url.URL, module string) ([]string, error) {
	var doc struct {
		Modules []struct {
			Versions []struct{ Version string }
		}
	}
	if _, err := c.metadata(ctx, service.String()+module+"/versions", false, &doc); err != nil {
		return nil, err
	}
	if len(doc.Modules) != 1 {
		return nil, fmt.Errorf("module %s: %d elements in modules, the tools read the first", module, len(doc.Modules))
	}
	versions := make([]string, 0, len(doc.Modules[0].Versions))
	for _, v := range doc.Modules[0].Versions {
		versions = append(versions, v.Version)
	}
	return versions, nil
}

// Module fetches one version of a module and returns its files.
func (c *Client) Module(ctx context.Context, service *url.URL, module, version string) (map[string]string, error) {
	location, err := c.ModuleLocation(ctx, service, module, version)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(location.Path, ".zip") && location.Query().Get("archive") != "zip" {
		return nil, fmt.Errorf("%s: nothing in it says which kind of archive it is", location)
	}
	q := location.Query()
	sum := q.Get("checksum")
	q.Del("archive")
	q.Del("checksum")
	location.RawQuery = q.Encode()
	b, err := c.fetchArchive(ctx, location, c.Tool.ArchiveAgent, true)
	if err != nil {
		return nil, err
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(b)); sum != "" && sum != got {
		return nil, fmt.Errorf("%s: the archive has %s, want %s", location, got, sum)
	}
	return Unzip(b)
}

// ModuleLocation requests the location of a version of a module.
func (c *Client) ModuleLocation(ctx context.Context, service *url.URL, module, version string) (*url.URL, error) {
	resp, err := c.send(ctx, http.MethodGet, service.String()+module+"/"+version+"/download", c.Tool.UserAgent, c.Token)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	// Both tools read the location of a module from an answer with these.
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent {
		return nil, checkStatus(resp)
	}
	location := resp.Header.Get("X-Terraform-Get")
	if c.Tool.ReadsLocation && resp.StatusCode == http.StatusOK {
		var doc struct{ Location string }
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxMetadata)).Decode(&doc); err != nil {
			return nil, fmt.Errorf("module %s %s: a body that is no JSON: %w", module, version, err)
		}
		if doc.Location != "" {
			location = doc.Location
		}
	}
	if location == "" {
		return nil, errors.New("the answer names no location")
	}
	if !strings.HasPrefix(location, "/") && !strings.HasPrefix(location, "./") && !strings.HasPrefix(location, "../") {
		return url.Parse(location)
	}
	return resp.Request.URL.Parse(location)
}

// Unzip returns the files of a zip archive by name.
func Unzip(b []byte) (map[string]string, error) {
	r, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	files := make(map[string]string, len(r.File))
	for _, f := range r.File {
		if f.FileInfo().IsDir() {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		files[f.Name] = string(content)
	}
	return files, nil
}
