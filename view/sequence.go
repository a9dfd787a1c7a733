package view

// align walks two sequences of keys in parallel and pairs the elements of a longest common subsequence. It calls
// match with the indexes of each step, -1 where one side has no element. pairUp reports whether two different
// elements are one changed element, rather than a removed one and an added one.
//
// The time is proportional to the product of the parts that differ, not of the lengths.
func align(before, after []string, pairUp func(b, a int) bool, match func(b, a int)) {
	common := longestCommon(before, after)
	b, a, c := 0, 0, 0
	next := func(list []string, i int) bool { return c < len(common) && list[i] == common[c] }
	for b < len(before) || a < len(after) || c < len(common) {
		for b < len(before) && !next(before, b) {
			if a < len(after) && pairUp(b, a) && !next(after, a) {
				match(b, a)
				a++
			} else {
				match(b, -1)
			}
			b++
		}
		for a < len(after) && !next(after, a) {
			if b < len(before) && pairUp(b, a) {
				match(b, a)
				b++
			} else {
				match(-1, a)
			}
			a++
		}
		if c < len(common) {
			match(b, a)
			b, a, c = b+1, a+1, c+1
		}
	}
}

// longestCommon returns a longest common subsequence.
func longestCommon(xs, ys []string) []string {
	head := 0
	for head < len(xs) && head < len(ys) && xs[head] == ys[head] {
		head++
	}
	tail := 0
	for tail < len(xs)-head && tail < len(ys)-head && xs[len(xs)-1-tail] == ys[len(ys)-1-tail] {
		tail++
	}
	out := append([]string(nil), xs[:head]...)
	out = append(out, longestCommonMiddle(xs[head:len(xs)-tail], ys[head:len(ys)-tail])...)
	return append(out, xs[len(xs)-tail:]...)
}

func longestCommonMiddle(xs, ys []string) []string {
	if len(xs) == 0 || len(ys) == 0 {
		return nil
	}
	// length[y*w+x] is the length for the first x elements of xs and the first y of ys.
	w := len(xs) + 1
	length := make([]int32, w*(len(ys)+1))
	for y := 1; y <= len(ys); y++ {
		for x := 1; x <= len(xs); x++ {
			if xs[x-1] == ys[y-1] {
				length[y*w+x] = length[(y-1)*w+x-1] + 1
			} else {
				length[y*w+x] = max(length[y*w+x-1], length[(y-1)*w+x])
			}
		}
	}
	out := make([]string, length[len(length)-1])
	for x, y, i := len(xs), len(ys), len(out)-1; i >= 0; {
		switch {
		case xs[x-1] == ys[y-1]:
			out[i] = xs[x-1]
			x, y, i = x-1, y-1, i-1
		case length[y*w+x-1] > length[(y-1)*w+x]:
			x--
		default:
			y--
		}
	}
	return out
}

// pairs matches the elements of two sets. partner is, for each element of before, the index of its equal in after,
// or -1; the second result marks the elements of after without a partner.
func pairs(before, after []string, mayMatch func(b, a int) bool) (partner []int, fresh []bool) {
	places := make(map[string][]int, len(after))
	for a, key := range after {
		places[key] = append(places[key], a)
	}
	partner, fresh = make([]int, len(before)), make([]bool, len(after))
	for i := range fresh {
		fresh[i] = true
	}
	for b, key := range before {
		partner[b] = -1
		for _, a := range places[key] {
			if fresh[a] && mayMatch(b, a) {
				partner[b], fresh[a] = a, false
				break
			}
		}
	}
	return partner, fresh
}
