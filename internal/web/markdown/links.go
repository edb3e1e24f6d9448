// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// linkRel marks a link as content of other authors.
const linkRel = "nofollow noopener ugc"

// Location is the place of a text, to which its relative links refer.
type Location struct {
	Key string // identifies it in the cache
	Dir string // directory of the text in its archive

	// File returns the page of a file of the archive, or with image its bytes, as a link
	// from the page that shows the text; "": no such file. nil: there are no files.
	File func(path string, image bool) string
}

// isRelative reports whether a link is a relative path.
func isRelative(u *url.URL) bool { return !u.IsAbs() && u.Host == "" && u.Path != "" }

// of returns the page of the target of a relative link. A link cannot leave the archive.
func (p Location) of(link string, image bool) string {
	u, err := url.Parse(link)
	if err != nil || !isRelative(u) || p.File == nil {
		return ""
	}
	name := path.Join(p.Dir, u.Path)
	if strings.HasPrefix(u.Path, "/") {
		name = strings.TrimLeft(path.Clean(u.Path), "/")
	}
	if name == "." || name == ".." || strings.HasPrefix(name, "../") {
		return ""
	}
	return p.File(name, image)
}

// rewriteLinks replaces the addresses of links and images of a text by those on this
// server. The result is not safe yet: the policy that follows allows only addresses that
// this function can produce.
func rewriteLinks(text []byte, at Location, anchors map[string]bool, images ImageHosts) []byte {
	var out bytes.Buffer
	inLink := 0
	for z := html.NewTokenizer(bytes.NewReader(text)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return out.Bytes()
		}
		raw := slices.Clone(z.Raw()) // TagName and TagAttr change it
		name, _ := z.TagName()
		switch tag := string(name); {
		case kind == html.EndTagToken && tag == "a":
			inLink = max(inLink-1, 0)
			out.Write(raw)
		case kind != html.StartTagToken && kind != html.SelfClosingTagToken, tag != "a" && tag != "img":
			out.Write(raw)
		case tag == "a":
			inLink++
			out.WriteString(newLink(attributes(z), at, anchors))
		default:
			out.WriteString(newImage(attributes(z), at, images, inLink > 0))
		}
	}
}

func attributes(z *html.Tokenizer) map[string]string {
	all := map[string]string{}
	for {
		key, value, more := z.TagAttr()
		if _, ok := all[string(key)]; !ok { // the first attribute counts
			all[string(key)] = string(value)
		}
		if !more {
			return all
		}
	}
}

// newLink returns the start tag of a link.
func newLink(a map[string]string, at Location, anchors map[string]bool) string {
	href := strings.TrimSpace(a["href"])
	anchor, inside := strings.CutPrefix(href, "#")
	switch {
	case inside && anchors[anchor]:
		return startTag("a", "href", "#md-"+anchor)
	case inside || href == "":
		return "<a>"
	case absolute(href):
		return startTag("a", "href", href, "rel", linkRel)
	}
	if to := at.of(href, false); to != "" {
		return startTag("a", "href", to)
	}
	return "<a>"
}

// newImage returns an image of the archive or of a listed host, or a link to an image
// elsewhere: pages load nothing from other hosts.
func newImage(a map[string]string, at Location, images ImageHosts, inLink bool) string {
	src := strings.TrimSpace(a["src"])
	alt := a["alt"]
	to := images.of(src)
	if !absolute(src) {
		to = at.of(src, true)
	}
	if to != "" {
		return startTag("img", "src", to, "alt", alt, "width", a["width"], "height", a["height"])
	}
	if alt == "" {
		alt = "image"
	}
	if inLink || !absolute(src) {
		return html.EscapeString(alt)
	}
	return startTag("a", "href", src, "rel", linkRel) + html.EscapeString(alt) + "</a>"
}

// absolute reports whether a link has a scheme or a host.
func absolute(link string) bool {
	u, err := url.Parse(link)
	return err != nil || u.IsAbs() || u.Host != "" || strings.HasPrefix(link, "//")
}

// startTag returns a start tag with its attributes. Attributes without a value are left
// out, except alt, which an image always has.
func startTag(name string, attributes ...string) string {
	var b strings.Builder
	b.WriteString("<" + name)
	for pair := range slices.Chunk(attributes, 2) {
		if pair[1] != "" || pair[0] == "alt" {
			b.WriteString(" " + pair[0] + `="` + html.EscapeString(pair[1]) + `"`)
		}
	}
	return b.String() + ">"
}
