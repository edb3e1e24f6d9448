// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/seed-141914ff/okara/internal/text"
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

func isRelative(u *url.URL) bool { return !u.IsAbs() && u.Host == "" && u.Path != "" }

// targetOf returns the page of the target of a relative link, with its anchor. A link cannot
// leave the archive.
func (p Location) targetOf(link string, image bool) string {
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
	to := p.File(name, image)
	switch {
	case to == "" || u.Fragment == "" || image:
		return to
	case lineAnchor().MatchString(u.Fragment):
		line, _, _ := strings.Cut(u.Fragment, "-")
		return to + "#" + line
	}
	return to + anchorLink(u.Fragment)
}

// lineAnchor matches the anchors of lines, or of several: L10 and L10-L20.
var lineAnchor = text.Pattern(`^L[0-9]{1,6}(-L?[0-9]{1,6})?$`)

func anchorLink(id string) string {
	return (&url.URL{Fragment: idPrefix + strings.TrimPrefix(id, idPrefix)}).String()
}

// rewriteTags replaces the addresses of links and images of a text by those on this
// server, and the IDs by those with a prefix. The result is not safe yet: the policy that
// follows allows only addresses and IDs that this function can produce.
func rewriteTags(text []byte, at Location, images ImageHosts) []byte {
	var out bytes.Buffer
	var raw []byte
	inLink := 0
	for z := html.NewTokenizer(bytes.NewReader(text)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return out.Bytes()
		}
		raw = append(raw[:0], z.Raw()...) // TagName and TagAttr change it
		name, _ := z.TagName()
		tag := string(name)
		if kind == html.EndTagToken && tag == "a" {
			inLink = max(inLink-1, 0)
		}
		if kind == html.EndTagToken && tag == "h1" {
			raw = []byte("</h2>")
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			out.Write(raw)
			continue
		}
		a := tagAttributes(z)
		switch tag {
		case "a":
			inLink++
			out.WriteString(newLink(a, at))
		case "img":
			out.WriteString(newImage(a, at, images, inLink > 0))
		case "source":
			out.WriteString(newSource(a, at, images))
		case "input": // of a task list; any other is not shown
			if _, shown := a["disabled"]; !shown || a["type"] != "checkbox" {
				break
			}
			label := "to do"
			if _, done := a["checked"]; done {
				label = "done"
			}
			out.WriteString(strings.TrimRight(string(raw), "/ >") + ` aria-label="` + label + `">`)
		case "h1": // the page has one
			out.WriteString(startTag("h2", "align", a["align"]))
		default:
			if id := a["id"]; id != "" && !strings.HasPrefix(id, idPrefix) {
				out.WriteString(startTag("a", "id", idPrefix+id) + "</a>")
			}
			out.Write(raw)
		}
	}
}

func tagAttributes(z *html.Tokenizer) map[string]string {
	var all map[string]string
	for {
		key, value, more := z.TagAttr()
		if all == nil && len(key) > 0 {
			all = map[string]string{}
		}
		if _, ok := all[string(key)]; !ok && len(key) > 0 { // the first attribute counts
			all[string(key)] = string(value)
		}
		if !more {
			return all
		}
	}
}

// newLink returns the start tag of a link, or of an anchor.
func newLink(a map[string]string, at Location) string {
	href := strings.TrimSpace(a["href"])
	id := cmp.Or(a["id"], a["name"])
	if id != "" {
		id = idPrefix + strings.TrimPrefix(id, idPrefix)
	}
	inside, ok := strings.CutPrefix(href, "#")
	switch {
	case ok && inside != "":
		if name, err := url.PathUnescape(inside); err == nil {
			inside = name
		}
		return startTag("a", "id", id, "href", anchorLink(inside))
	case isAbsolute(href):
		return startTag("a", "id", id, "href", href, "rel", linkRel)
	}
	return startTag("a", "id", id, "href", at.targetOf(href, false))
}

// imageAt returns the address of an image of the archive or of a listed host; "" if pages
// do not show it: they load nothing from other hosts.
func imageAt(src string, at Location, images ImageHosts) string {
	if isAbsolute(src) {
		return images.imageURL(src)
	}
	return at.targetOf(src, true)
}

func newImage(a map[string]string, at Location, images ImageHosts, inLink bool) string {
	src := strings.TrimSpace(a["src"])
	alt := a["alt"]
	if to := imageAt(src, at, images); to != "" {
		return startTag("img", "src", to, "alt", alt, "width", a["width"], "height", a["height"], "align", a["align"])
	}
	alt = cmp.Or(alt, "image")
	if inLink || !isAbsolute(src) {
		return html.EscapeString(alt)
	}
	return startTag("a", "href", src, "rel", linkRel) + html.EscapeString(alt) + "</a>"
}

// newSource returns another form of an image, for dark or light screens; "" if it is not
// shown.
func newSource(a map[string]string, at Location, images ImageHosts) string {
	for src := range strings.FieldsSeq(a["srcset"]) { // the first one
		if to := imageAt(strings.TrimRight(src, ","), at, images); to != "" {
			return startTag("source", "media", a["media"], "srcset", to)
		}
		break
	}
	return ""
}

// isAbsolute reports whether a link has a scheme or a host.
func isAbsolute(link string) bool {
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
