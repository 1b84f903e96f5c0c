package view

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"foundry/plan"
)

// Measures of the picture, in CSS pixels. Texts are cut to what fits, by a
// width of a rune that is more than the fonts have.
const (
	pictureEdge = 16 // free space around
	cardX       = 60 // of the cards' left side, with room for the way back of a loop
	cardWidth   = 372
	cardPad     = 12
	titleHeight = 20
	lineHeight  = 17
	markHeight  = 22
	portHeight  = 19
	cardGap     = 26 // between cards, with room for an arrow
	boxHead     = 30
	boxFoot     = 14
	laneGap     = 13
	portText    = 18 // from the card to a port's text
	runeWidth   = 7
	smallRune   = 6
	maxPortText = 300
	colours     = 8 // of wires: classes w0 to w7
)

// place is where something stands.
type place struct{ X, Y, W, H int }

// shownCard is an item with its place and texts.
type shownCard struct {
	place
	Detail, Class, Title, Name, Number string
	TitleX, TitleY, NumberX            int
	Lines                              []shownText
	Marks                              []shownMark
}

type shownText struct {
	X, Y        int
	Text, Class string
}

type shownMark struct {
	place
	TextX, TextY int
	Text         string
}

type shownBox struct {
	place
	TextX, TextY int
	Class, Title string
	Back         string // the way back of a loop
}

// shownWire is one artifact on its way to one reader, or to none.
type shownWire struct {
	Path, Head, Class, From, To string
	DotX, DotY                  int
}

// picture is a graph that is laid out: one item below the other in the plan's
// order, and each artifact in a lane at their right, from the item that gives
// it to all that read it.
type picture struct {
	W, H  int
	Boxes []shownBox
	Wires []shownWire
	Order []string
	Cards []shownCard
	Ports []shownText
}

// layout places a graph.
func (g *graph) layout() *picture {
	l := &layouter{graph: g, places: make([]place, len(g.items))}
	l.stack()
	l.lanes()
	l.draw()
	return &l.picture
}

type layouter struct {
	*graph
	picture
	places []place
	right  int // where the texts of the ports end, and the lanes begin
	lane   map[*net]int
	count  int // of lanes
}

// stack places the items below each other.
func (l *layouter) stack() {
	y := pictureEdge
	widest := 0
	for i, it := range l.items {
		if it.box != nil && it.box.items[0] == it {
			y += boxHead
		}
		l.places[i] = place{cardX, y, cardWidth, max(l.cardHeight(it), (len(it.ins)+len(it.outs))*portHeight+6)}
		y += l.places[i].H + cardGap
		if it.box != nil && it.box.items[len(it.box.items)-1] == it {
			y += boxFoot
		}
		for _, p := range slices.Concat(it.ins, it.outs) {
			widest = max(widest, utf8.RuneCountInString(p.label)*smallRune)
		}
	}
	l.H = y - cardGap + pictureEdge
	l.right = cardX + cardWidth + portText + min(widest, maxPortText) + 14
}

func (l *layouter) cardHeight(it *item) int {
	h := 2*cardPad + titleHeight - 6 + len(it.lines)*lineHeight
	if len(it.marks) > 0 {
		h += markHeight * markRows(it.marks)
	}
	return h
}

// portY is the height of a port: what enters stands above what leaves.
func (l *layouter) portY(it *item, in bool, i int) int {
	p := l.places[it.index]
	if !in {
		i += len(it.ins)
	}
	top := p.Y + (p.H-(len(it.ins)+len(it.outs))*portHeight)/2
	return top + i*portHeight + portHeight/2
}

type span struct{ from, to int }

// lanes gives each net a lane in which it meets no other: the short ones
// first, nearest to the items.
func (l *layouter) lanes() {
	l.lane = map[*net]int{}
	spans := map[*net]span{}
	var nets []*net
	for _, n := range l.nets {
		if len(n.to) == 0 {
			continue
		}
		y := l.portY(n.from, false, n.out)
		s := span{y, y}
		for _, t := range n.to {
			y := l.portY(t.item, true, t.in)
			s.from, s.to = min(s.from, y), max(s.to, y)
		}
		spans[n] = s
		nets = append(nets, n)
	}
	slices.SortStableFunc(nets, func(a, b *net) int {
		return (spans[a].to - spans[a].from) - (spans[b].to - spans[b].from)
	})
	var taken [][]span // of each lane, sorted
	for _, n := range nets {
		s := spans[n]
		for i := 0; ; i++ {
			if i == len(taken) {
				taken = append(taken, nil)
			}
			at, _ := slices.BinarySearchFunc(taken[i], s, func(a, b span) int { return a.from - b.from })
			if at > 0 && taken[i][at-1].to+portHeight/2 >= s.from || at < len(taken[i]) && taken[i][at].from <= s.to+portHeight/2 {
				continue
			}
			taken[i] = slices.Insert(taken[i], at, s)
			l.lane[n] = i
			break
		}
	}
	l.count = len(taken)
	l.W = l.right + max(l.count, 1)*laneGap + pictureEdge
}

func (l *layouter) draw() {
	for _, b := range l.graph.boxes {
		l.box(b)
	}
	for _, o := range l.order {
		from, to := l.places[o[0].index], l.places[o[1].index]
		x := from.X + 28
		l.Order = append(l.Order, fmt.Sprintf("M%d %dV%d", x, from.Y+from.H, to.Y-7))
	}
	for _, n := range l.nets {
		l.net(n)
	}
	for i, it := range l.items {
		l.card(it, l.places[i])
		for k, p := range it.ins {
			l.port(it, p, true, k)
		}
		for k, p := range it.outs {
			l.port(it, p, false, k)
		}
	}
}

func (l *layouter) box(b *box) {
	first, last := l.places[b.items[0].index], l.places[b.items[len(b.items)-1].index]
	p := place{pictureEdge, first.Y - boxHead, l.right - pictureEdge - 6, last.Y + last.H + boxFoot - first.Y + boxHead}
	s := shownBox{place: p, TextX: cardX + 46, TextY: p.Y + 20, Class: b.kind, Title: fit(Safe(b.title), (p.W-60)/runeWidth)}
	if b.kind == itemLoop {
		x, from, to := cardX-22, last.Y+last.H/2, first.Y+18
		s.Back = fmt.Sprintf("M%d %dH%dQ%d %d %d %dV%dQ%d %d %d %dH%d", cardX, from, x+8, x, from, x, from-8, to+8, x, to, x+8, to, cardX-7)
	}
	l.Boxes = append(l.Boxes, s)
}

// net draws the way of an artifact to each who reads it.
func (l *layouter) net(n *net) {
	x0, y0 := cardX+cardWidth, l.portY(n.from, false, n.out)
	class := "w" + fmt.Sprint(l.lane[n]%colours) + " " + n.kind
	if len(n.to) == 0 {
		l.Wires = append(l.Wires, shownWire{Path: fmt.Sprintf("M%d %dH%d", x0, y0, x0+portText-4), Class: "unread", From: detailID(n.from), DotX: x0, DotY: y0})
		return
	}
	x := l.right + l.lane[n]*laneGap
	for _, t := range n.to {
		y := l.portY(t.item, true, t.in)
		turn := 6
		if y < y0 {
			turn = -6
		}
		path := fmt.Sprintf("M%d %dH%dQ%d %d %d %dV%dQ%d %d %d %dH%d", x0, y0, x-6, x, y0, x, y0+turn, y-turn, x, y, x-6, y, x0+7)
		head := fmt.Sprintf("M%d %dl8 -4v8z", x0+1, y)
		l.Wires = append(l.Wires, shownWire{Path: path, Head: head, Class: class, From: detailID(n.from), To: detailID(t.item), DotX: x0, DotY: y0})
	}
}

func (l *layouter) port(it *item, p port, in bool, i int) {
	class := "in"
	if !in {
		class = "out"
	}
	if p.net == nil {
		class += " nothing"
	} else if len(p.net.to) > 0 {
		class += " w" + fmt.Sprint(l.lane[p.net]%colours)
	}
	if it.box != nil {
		class += " boxed"
	}
	l.Ports = append(l.Ports, shownText{X: cardX + cardWidth + portText, Y: l.portY(it, in, i) + 4, Class: class, Text: fit(p.label, maxPortText/smallRune)})
}

func (l *layouter) card(it *item, p place) {
	c := shownCard{place: p, Detail: detailID(it), Class: it.kind, Name: Safe(it.name()), TitleX: p.X + cardPad + 2, TitleY: p.Y + cardPad + 11, NumberX: p.X + cardWidth - cardPad}
	room := cardWidth - 2*cardPad
	if it.node != nil && it.kind != plan.NodeCheck {
		c.Number = Count(it.node.Phase)
		room -= 40
	}
	c.Title = fit(it.title, room/8)
	if it.kind == plan.NodeCheck {
		c.Title = fit("check "+it.title, room/8)
	}
	y := c.TitleY
	for i, text := range it.lines {
		y += lineHeight
		class := "line"
		if it.kind == plan.NodeCheck || i == 0 && (it.kind == itemLoop || it.kind == itemBranch) {
			class = "line code"
		}
		c.Lines = append(c.Lines, shownText{c.TitleX, y, fit(text, (cardWidth-2*cardPad)/runeWidth), class})
	}
	x := c.TitleX
	y += 8
	for _, m := range it.marks {
		w := markWidth(m)
		if x > c.TitleX && x+w > p.X+cardWidth-cardPad {
			x, y = c.TitleX, y+markHeight
		}
		c.Marks = append(c.Marks, shownMark{place{x, y, w, 18}, x + 7, y + 13, m})
		x += w + 6
	}
	l.Cards = append(l.Cards, c)
}

func markWidth(text string) int { return utf8.RuneCountInString(text)*runeWidth + 14 }

func markRows(marks []string) int {
	rows, x := 1, 0
	for _, m := range marks {
		w := markWidth(m)
		if x > 0 && x+w > cardWidth-2*cardPad-2 {
			rows, x = rows+1, 0
		}
		x += w + 6
	}
	return rows
}

// fit cuts a text to some runes.
func fit(s string, runes int) string {
	if utf8.RuneCountInString(s) <= runes {
		return s
	}
	return strings.TrimRight(string([]rune(s)[:max(runes-1, 0)]), " ") + "…"
}

// detailID is the place of an item's details in the page.
func detailID(it *item) string { return fmt.Sprintf("d%d", it.index) }
