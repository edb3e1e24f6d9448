// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"bytes"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// policy lets text through, and nothing that acts or looks like a part of okara. What
// it lets through is written anew from its tokens: elements and attributes by name,
// values by pattern, all else as text or not at all.
type policy map[string]allowed

// allowed are the attributes that an element may have, with what each may be; nil: anything.
type allowed map[string]*regexp.Regexp

// newPolicy allows images of these hosts.
func newPolicy(images ImageHosts) policy {
	p := policy{}
	for _, name := range []string{
		"p", "br", "hr", "blockquote", "ul", "li", "em", "strong", "b", "i", "del", "kbd", "sub", "sup", "summary",
		"table", "thead", "tbody", "tr", "dl", "dt", "dd", "div",
	} {
		p[name] = nil
	}
	id := allowed{"id": regexp.MustCompile(`^md-[\p{L}\p{N}_-]+$`)}
	align := allowed{"align": regexp.MustCompile(`^(left|right|center)$`)}
	class := allowed{"class": regexp.MustCompile(`^(language-[\w-]{1,30}|chroma|[a-z]{1,3}[0-9]?)$`)}
	p["h2"], p["h3"], p["h4"], p["h5"], p["h6"] = id, id, id, id, id
	p["th"], p["td"] = align, align
	p["code"], p["pre"], p["span"] = class, class, class
	none, size := regexp.MustCompile(`^$`), regexp.MustCompile(`^[0-9]{1,4}$`)
	p["details"] = allowed{"open": none}
	p["ol"] = allowed{"start": regexp.MustCompile(`^[0-9]{1,6}$`)}
	p["input"] = allowed{
		"type": regexp.MustCompile(`^checkbox$`), "aria-label": regexp.MustCompile(`^(done|to do)$`), "checked": none, "disabled": none,
	}
	p["img"] = allowed{"alt": nil, "width": size, "height": size, "src": images.sources()}
	p["a"] = allowed{
		"href": regexp.MustCompile(`^(https?://|mailto:|#md-|\./(\.\./)*(modules|providers|mirror)/)`), // of what is relative only what relink made
		"rel":  regexp.MustCompile(`^` + linkRel + `$`),
	}
	return p
}

// silent are elements of which not even the text is shown.
func silent(name string) bool {
	switch name {
	case "frame", "frameset", "iframe", "noembed", "noframes", "noscript", "nostyle", "object", "script", "style", "title":
		return true
	}
	return false
}

// sanitize returns what the policy lets through of a text.
func (p policy) sanitize(text []byte) []byte {
	var out bytes.Buffer
	var bare []string // elements that were dropped for want of attributes, whose ends go too
	hidden := 0       // silent elements that are open
	for z := html.NewTokenizer(bytes.NewReader(text)); z.Next() != html.ErrorToken; {
		t := z.Token()
		switch t.Type {
		case html.StartTagToken, html.SelfClosingTagToken:
			if silent(t.Data) && t.Type == html.StartTagToken {
				hidden++
			}
			if !p.allow(&t) {
				if needsAttributes(t.Data) && t.Type == html.StartTagToken {
					bare = append(bare, t.Data)
				}
				continue
			}
		case html.EndTagToken:
			if silent(t.Data) {
				hidden = max(hidden-1, 0)
			}
			if last := len(bare) - 1; last >= 0 && bare[last] == t.Data {
				bare = bare[:last]
				continue
			}
			if _, ok := p[t.Data]; !ok {
				continue
			}
			t.Attr = nil
		case html.TextToken:
		default:
			continue // comments and the like
		}
		if hidden == 0 {
			out.WriteString(t.String()) // escaped
		}
	}
	return out.Bytes()
}

// needsAttributes are elements that are nothing without one.
func needsAttributes(name string) bool { return name == "a" || name == "img" || name == "input" }

// allow takes from an element what it may not have, and reports whether it may stay.
func (p policy) allow(t *html.Token) bool {
	may, ok := p[t.Data]
	if !ok {
		return false
	}
	t.Attr = slices.DeleteFunc(t.Attr, func(a html.Attribute) bool {
		pattern, ok := may[a.Key]
		return !ok || a.Namespace != "" || pattern != nil && !pattern.MatchString(a.Val) || (a.Key == "href" || a.Key == "src") && !safeURL(a.Val)
	})
	return len(t.Attr) > 0 || !needsAttributes(t.Data)
}

// safeURL reports whether an address can be read, and leads to a page, a mailbox or
// within okara.
func safeURL(address string) bool {
	u, err := url.Parse(strings.TrimSpace(address))
	return err == nil && slices.Contains([]string{"", "http", "https", "mailto"}, u.Scheme)
}
