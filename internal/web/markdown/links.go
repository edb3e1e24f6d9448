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

// linkRel says of a link of others that we do not vouch for it.
const linkRel = "nofollow noopener ugc"

// Location is where a text is, so that its relative links lead somewhere.
type Location struct {
	Key string // names it in the cache
	Dir string // of the text, in its archive

	// File is the page of a file of the archive, or with image its bytes, as a link
	// from the page that shows the text; "": there is none. nil: there are no files.
	File func(path string, image bool) string
}

// isRelative reports whether a link names a file without saying where.
func isRelative(u *url.URL) bool { return !u.IsAbs() && u.Host == "" && u.Path != "" }

// of is the page of what a relative link names. A link cannot leave the archive.
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

// rewriteLinks gives links and images of a text the addresses that they have here. What
// comes out is not safe yet: the policy is behind it, which lets no address through
// that could not have come from here.
func rewriteLinks(text []byte, at Location, anchors map[string]bool, images ImageHosts) []byte {
	var out bytes.Buffer
	inLink := 0
	for z := html.NewTokenizer(bytes.NewReader(text)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return out.Bytes()
		}
		raw := slices.Clone(z.Raw()) // reading the token changes it
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
		if _, ok := all[string(key)]; !ok { // the first counts
			all[string(key)] = string(value)
		}
		if !more {
			return all
		}
	}
}

// newLink is the start of a link.
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

// newImage is an image of the archive or of a host that may be shown, or a link to
// one that is elsewhere: pages load nothing from other hosts.
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

// startTag writes an element with its attributes, those without a value left out,
// but for alt, which an image always has.
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
