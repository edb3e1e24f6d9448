// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"strings"
	"unicode"
)

// icon is the picture of a template: lines in a square of 24 by 24, or the first letter of
// its title if it names no known picture.
type icon struct{ Lines, Letter string }

func iconOf(name, title string) icon {
	if lines := iconLines(name); lines != "" {
		return icon{Lines: lines}
	}
	i := strings.IndexFunc(title, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	for _, first := range title[max(0, i):] {
		return icon{Letter: strings.ToUpper(string(first))}
	}
	return icon{}
}

// iconLines returns a picture by its name, as the path of an SVG. docs/publish/templates.md
// lists the names.
func iconLines(name string) string {
	switch name {
	case "bucket", "storage":
		return "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zm0 0 2.5 13c.3 1.1 2.6 2 5.5 2s5.2-.9 5.5-2L20 6"
	case "cloud":
		return "M7 19a5 5 0 0 1-.6-9.96A6.5 6.5 0 0 1 19 10.5 4.3 4.3 0 0 1 18 19z"
	case "cluster", "kubernetes":
		return "M12 2.5 20.5 7v10L12 21.5 3.5 17V7zM12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5V8M12 16v5.5M3.5 7l5 3M15.5 14l5 3M20.5 7l-5 3M8.5 14l-5 3"
	case "code", "terminal":
		return "M3 5h18v14H3zM7 9.5l3 2.5-3 2.5M12.5 15H17"
	case "database":
		return "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zm0 0v12c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3"
	case "globe", "web":
		return "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c5 5 5 13 0 18M12 3c-5 5-5 13 0 18"
	case "key", "lock":
		return "M5 11h14v10H5zM8 11V7.5a4 4 0 0 1 8 0V11M12 15v2.5"
	case "network":
		return "M9 3h6v5H9zM3 16h6v5H3zM15 16h6v5h-6zM12 8v4M6 16v-4h12v4"
	case "notebook":
		return "M6 3h13v18H6zM10 3v18M3.5 7H8M3.5 12H8M3.5 17H8"
	case "queue":
		return "M4 4h16v4H4zM4 10h16v4H4zM4 16h16v4H4z"
	case "server":
		return "M4 4h16v7H4zM4 13h16v7H4zM7.5 7.5h2M7.5 16.5h2M13 7.5h4M13 16.5h4"
	case "user":
		return "M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM4 21c0-4.5 3.5-7 8-7s8 2.5 8 7"
	}
	return ""
}
