// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/net/html"

	"github.com/seed-141914ff/okara/oci"
)

// hasArchiveName reports whether the tools take a path for that of an archive.
func hasArchiveName(p string) bool {
	return slices.ContainsFunc([]string{".zip", ".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz", ".tzst", ".tar.zst"},
		func(ext string) bool { return strings.HasSuffix(p, ext) })
}

// Archive starts the download of an archive location. The caller must close the body. If the
// location has a checksum and the bytes do not match it, the read ends with oci.ErrCorrupt.
//
// An address that does not name an archive may answer with the address of the module, as
// go-getter's HTTP protocol describes: in the header X-Terraform-Get, or in the element <meta
// name="terraform-get" content="..."> of a page. Then there is no body, and next is that location.
func (c *Client) Archive(ctx context.Context, l Location) (body io.ReadCloser, next *Location, err error) {
	u := *l.URL
	if l.Asked {
		q := u.Query()
		q.Set("terraform-get", "1")
		u.RawQuery = q.Encode()
	}
	resp, err := c.sendGet(ctx, &u, false)
	if err != nil {
		return nil, nil, err
	}
	if l.Asked {
		next, err = l.nextLocation(resp)
	}
	if next != nil || err != nil {
		return nil, next, errors.Join(err, resp.Body.Close())
	}
	if body, err = limitBody(resp); err == nil && l.Checksum != "" {
		body = &verified{body, l.Checksum.Verifier()}
	}
	return body, nil, err
}

// nextLocation returns the location in an answer; nil: it is the archive.
func (l Location) nextLocation(resp *http.Response) (*Location, error) {
	ref := resp.Header.Get(getHeader)
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); ref == "" && t == "text/html" {
		if ref = metaLocation(io.LimitReader(resp.Body, maxSums)); ref == "" {
			return nil, fmt.Errorf("%s returned a page without a module: %w", formatURL(l.URL), oci.ErrCorrupt)
		}
	}
	if ref == "" {
		return nil, nil
	}
	next, err := parseAnswer(resp, ref)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", formatURL(l.URL), err)
	}
	if l.Checksum != "" && next.Kind != KindArchive {
		return nil, oci.Unsupported("%s has a checksum and names %s, which is not an archive", formatURL(l.URL), formatURL(next.URL))
	}
	next.Checksum = cmp.Or(next.Checksum, l.Checksum)
	next.Subdir = strings.Trim(path.Join(next.Subdir, l.Subdir), "/")
	return &next, nil
}

// metaLocation returns the content of the first element
// <meta name="terraform-get"> of a page; "": there is none.
func metaLocation(page io.Reader) string {
	for t := html.NewTokenizer(page); ; {
		switch t.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken, html.SelfClosingTagToken:
			attributes := map[string]string{}
			for _, a := range t.Token().Attr {
				attributes[a.Key] = a.Val
			}
			if attributes["name"] == "terraform-get" {
				return attributes["content"]
			}
		}
	}
}

// verified returns an error at its end if the bytes do not match a checksum.
type verified struct {
	io.ReadCloser
	sum digest.Verifier
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	_, _ = v.sum.Write(p[:n]) // a hash takes everything
	if err == io.EOF && !v.sum.Verified() {
		err = fmt.Errorf("the archive does not match its checksum: %w", oci.ErrCorrupt)
	}
	return n, err
}
